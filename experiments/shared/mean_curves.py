"""Curves of the mean update, which many figures draw."""

import numpy as np

from bandit_lab.grpo import Hyper, Learner
from bandit_lab.simulation import run


def mean_curves(learner: Learner, cells: Hyper, *, steps: int, initial: np.ndarray | None = None) -> np.ndarray:
    """Expected reward [C, T + 1] of the mean update at an infinite group, in float64; arguments as in `run`."""
    return run(learner, "mean_field", cells, steps=steps, dtype=np.float64, initial=initial, summary=False).reward_mean
