"""Numbers that the claims of experiments/three_phases.py compare."""

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce.experiment import Found


def curvature_constant(found: Found) -> float:
    """Curvature over J (1-J)(1-2J), the one farthest from the prediction; near J = 1/2 both vanish."""
    success = found.measured.success
    shape = (success * (1 - success) * (1 - 2 * success)).where(abs(success - 0.5) > 0.02)
    predicted = float(found.predicted.curvature_constant)
    return predicted * farthest_from_one(found.measured.curvature, shape * predicted)
