"""Numbers that the claims of experiments/adam.py compare."""

import xarray

from bandit_lab._readings import share_of_curves
from bandit_lab.study.reproduce.experiment import Found


def on_curves(found: Found) -> float:
    """Share of group sizes whose measured curve is the predicted one, always within a bias and 5 standard errors."""
    allowed = found.setting.tolerance.curve + 5 * found.measured.reward_error
    return share_of_curves(found.measured.reward, found.predicted.reward, allowed, "step")


def response(data: xarray.Dataset, found: Found, place: int, name: str = "response") -> float:
    """Answer to a displacement at one of the compared learning rates."""
    return float(data[name].sel(factor=found.setting.response.compared[place]))
