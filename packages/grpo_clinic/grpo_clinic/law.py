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


def stable_up_to(mean: float, largest: float) -> tuple[float, float]:
    """Largest learning rate times stiffness that is stable without momentum: at this mean age, at this largest age.

    By the mean age a: min(2, 1/a), where the damping 1/eta - K a of the oscillator changes its sign. By the
    largest age L, as if all were so old: 2 sin(pi/(4 L + 2)), exact for a constant lag.

    Example:
      >>> [round(one, 3) for one in stable_up_to(1.0, 2.0)]
      [1.0, 0.618]
    """
    return min(2.0, 1 / mean if mean > 0 else 2.0), 2 * float(np.sin(np.pi / (4 * largest + 2)))


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
