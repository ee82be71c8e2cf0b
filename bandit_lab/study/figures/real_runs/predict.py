"""Prediction of experiments/real_runs.py."""

import numpy as np
import xarray

from bandit_lab.study.figures.real_runs.problem import FACTORS, ONE
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """What is expected where no run has inertia that can be seen, and how times scale."""
    values = {
        "without_inertia": ((), 0.95, ONE | {"long_name": "share of runs that need no inertia"}),
        "coverage": ((), 0.9, ONE),
        "not_refused": ((), 1.0, ONE),
        "error_over_best_baseline": ((), 1.0, ONE),
        "exponent": (("factor",), np.array(list(FACTORS.values())), ONE),
    }
    return xarray.Dataset(values, {"factor": list(FACTORS)})
