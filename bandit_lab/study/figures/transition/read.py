"""Numbers that the claims of experiments/transition.py compare."""

import numpy as np
import xarray

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce.experiment import Found


def both_sweeps(f: Found, quantity: str, below: float) -> float:
    """Measured over predicted, farthest from 1, where the damping ratio is below a limit."""
    ratios = []
    for sweep in ("kappa", "momentum"):
        predicted = f.predicted[f"{quantity}_{sweep}"].where(f.predicted[f"damping_ratio_{sweep}"] < below)
        ratios.append(farthest_from_one(f.measured[f"{quantity}_{sweep}"], predicted))
    return float(farthest_from_one(np.array(ratios), 1.0))


def lost_damping(part: xarray.Dataset, f: Found, prefix: str = "") -> float:
    """Damping ratio on-policy less that with the largest lag, at the learning rate in the middle of the sweep."""
    ratio = part[f"{prefix}damping_ratio_kappa"].isel(kappa=f.setting.kappa_sweep.num // 2)
    return float(ratio.sel(lag=f.setting.lags[0]) - ratio.sel(lag=f.setting.lags[-1]))
