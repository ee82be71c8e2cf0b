"""The oscillator that momentum descent with a lag resembles: m x'' + gamma x' + K x = 0, time in optimiser steps.

m = mu/eta and gamma = (1 - mu)/eta - K lag, eta the learning rate of the convention (arXiv 2606.30789; derived in the
documentation of bandit_lab, whose own formulas a test holds against these).
"""

import math
from typing import Literal

import numpy as np

Convention = Literal["heavy_ball", "ema", "nesterov"]
OF_OPTIMIZER: dict[str, Convention] = {"sgd": "heavy_ball", "sgd_ema": "ema", "nesterov": "nesterov"}
"""Optimisers by name -> their momentum convention."""
MODELS = ("refresh", "lag", "pipeline")
"""How answers become old: N updates per batch, N updates late, or both."""
_NEAR = 1e-2
"""Size of the squared frequency over the squared decay below which sines are their series."""


def gain(momentum: float, convention: Convention) -> float:
    """Factor of the gradient in the velocity: 1 - mu for `ema`, else 1."""
    return 1 - momentum if convention == "ema" else 1.0


def damping_ratio(rate: float, momentum: float, stiffness: float, lag: float, convention: Convention) -> float:
    """gamma/(2 sqrt(m K)); infinite without momentum. rate: learning rate. lag: mean age of the answers [steps]."""
    eta = rate * gain(momentum, convention)
    damping = (1 - momentum) / eta - stiffness * lag + (momentum * stiffness if convention == "nesterov" else 0.0)
    scale = 2 * math.sqrt(momentum / eta * stiffness)
    return damping / scale if scale > 0 else math.inf


def rise(time: np.ndarray, frequency: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """Response from rest, 0 to 1: 1 - e^{-at} (cos(wt) + a sin(wt)/w), a = ratio * frequency, w^2 = frequency^2 - a^2.

    time [..., T], natural frequency [1/step] and damping ratio broadcast against each other. Smooth through 1.
    """
    decay = ratio * frequency * time
    squared = (frequency * time) ** 2 - decay**2
    root = np.sqrt(np.abs(squared))
    near, over = np.abs(squared) < _NEAR, squared < 0
    slow = np.exp(-np.where(over, (frequency * time) ** 2 / np.where(over, decay + root, 1.0), decay))
    fast = np.exp(-decay - root)
    cosine = np.where(over, 0.5 * (slow + fast), slow * np.cos(root))
    sine = np.where(over, 0.5 * (slow - fast), slow * np.sin(root)) / np.where(near, 1.0, root)
    series = 1 - squared / 6 * (1 - squared / 20 * (1 - squared / 42))
    return np.asarray(1 - cosine - decay * np.where(near, np.exp(-decay) * series, sine))
