"""Numbers that the claims of experiments/three_phases.py compare."""

import numpy as np

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce.experiment import Found


def gain_times_std(found: Found) -> np.ndarray:
    """Mean of measured gain x std in each quarter of the problems, sorted by their std [4]."""
    std = found.predicted.mean_std.values
    products = found.measured.gain.values * std
    return np.array([np.mean(products[part]) for part in np.array_split(np.argsort(std), 4)])


def curvature_constant(found: Found) -> float:
    """Curvature over J (1-J)(1-2J), the one farthest from the prediction; near J = 1/2 both vanish."""
    success = found.measured.success
    shape = (success * (1 - success) * (1 - 2 * success)).where(abs(success - 0.5) > 0.02)
    predicted = float(found.predicted.curvature_constant)
    return predicted * farthest_from_one(found.measured.curvature, shape * predicted)
