"""Numbers read off curves, predicted or measured alike."""

from typing import Any

import numpy as np


def crossing(time: np.ndarray, curve: np.ndarray, level: float) -> float:
    """First time at which a curve [T] reaches a level, linear between points; NaN if it starts above or never does."""
    above = np.asarray(curve) >= level
    i = int(np.argmax(above))
    if not above.any() or i == 0:
        return float("nan")
    return float(time[i - 1] + (level - curve[i - 1]) / (curve[i] - curve[i - 1]) * (time[i] - time[i - 1]))


def farthest_from_one(measured: Any, predicted: Any) -> float:
    """measured / predicted (numbers or arrays, plain or labelled) where it is farthest from 1, over all predicted.

    NaN if something that is predicted was not measured: nothing may hold because it was not found.
    """
    ratio, is_predicted = measured / predicted, ~np.isnan(predicted)
    if np.any(np.isnan(measured) & is_predicted) or not np.any(is_predicted):
        return float("nan")
    values = np.ravel(ratio)
    values = values[np.isfinite(values)]
    return float(values[np.argmax(np.abs(values - 1))])
