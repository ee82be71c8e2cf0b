"""What all sides are told of experiments/overdamped_limit.py."""

import numpy as np

from bandit_lab.study.reproduce.experiment import Setting

ONE, STEPS, REWARD = {"units": "1"}, {"units": "steps"}, {"units": "reward"}
FINE = 2401
"""Points in time at which the distance to the exponential is looked for."""


def learning_rates(setting: Setting) -> np.ndarray:
    span = setting.damping.learning_rate
    return np.geomspace(span.start, span.stop, span.num)


def logged_times(setting: Setting) -> np.ndarray:
    """Logged times in units of tau."""
    return np.linspace(0.0, setting.damping.duration, setting.damping.points)


def read_at(curves: np.ndarray, gone: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Curves [C, T + 1] by step, read at `gone` times their tau [C]."""
    steps = np.arange(curves.shape[1])
    return np.stack([np.interp(gone * time, steps, curve) for time, curve in zip(tau, curves, strict=True)])


def distance(curves: np.ndarray, gone: np.ndarray) -> np.ndarray:
    return np.max(np.abs(curves + np.expm1(-gone)), axis=1)
