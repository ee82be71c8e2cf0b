"""Numbers that the claims of experiments/group_size.py compare."""

import xarray

from bandit_lab._readings import share_of_curves
from bandit_lab.study.reproduce.experiment import Found, Setting


def on_curve(found: Found, predicted: xarray.DataArray, rule: str) -> float:
    """Share of group sizes whose measured curve is the predicted one, always within a bias and 5 standard errors."""
    allowed = found.setting.tolerance.curve + 5 * found.measured.reward_error.sel(rule=rule)
    return share_of_curves(found.measured.reward.sel(rule=rule), predicted.sel(rule=rule), allowed, "time")


def known_factor(found: Found) -> xarray.DataArray:
    """Predicted c_G(p) where the measured one is known well enough."""
    known = found.measured.factor_error < found.setting.tolerance.factor / 5 * found.predicted.factor
    return found.predicted.factor.where(known)


def product(data: xarray.Dataset, setting: Setting, level: float) -> float:
    """G p(1-p) of the largest group where c_G has this level."""
    q = float(data.failure_at_level.sel(level=level)[-1])
    return max(setting.sizes) * q * (1 - q)
