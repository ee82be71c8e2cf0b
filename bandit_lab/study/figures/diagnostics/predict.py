"""Prediction of experiments/diagnostics.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.curves.diagnose import FAILURES
from bandit_lab.study.reproduce.experiment import Setting

BLIND = FAILURES[:3]


def predict(setting: Setting) -> xarray.Dataset:
    """What the diagnostics and the curve should tell, and the period of the cycle."""
    interval = setting.recipes.cycles.refresh_interval
    flips = theory.exact("refresh", interval, setting.training.momentum).bifurcation == "flip"
    one = {"units": "share of runs"}
    return xarray.Dataset(
        {
            "named": ((), 1.0, one),
            "healthy": ((), 1.0, one),
            "hidden_from_curve": ((), float(len(BLIND)), {"units": "failures"}),
            "period": ((), 2.0 * interval if flips else np.nan, {"units": "steps"}),
        }
    )
