"""What prediction, measurement and panels of `mismatch` are all told."""

import numpy as np

from bandit_lab.lab.reproduce.experiment import Setting


def bounds(correction: str, bound: float) -> dict[str, float]:
    """Options of a correction whose largest weight is a bound; IcePop's band reaches down to its inverse."""
    return {"tis": {"largest": bound}, "icepop": {"low": 1 / bound, "high": bound}}.get(correction, {})


def hot_weights(setting: Setting) -> np.ndarray:
    """KL weights [arms, weights] of the hot runs."""
    return np.array(list(setting.hot.kl_weight.as_dict().values()))


def number(value: float | None) -> float:
    """NaN for none."""
    return float("nan") if value is None else value
