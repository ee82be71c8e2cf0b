"""The edge of stability: the stiffness at which a run that follows the gradient flow stops to follow it.

Derived here, after arXiv 2103.00065 for supervised learning. Let the stiffness rise along the flow. A run with learning
rate eta follows the flow until a multiplier of its linear loop leaves the unit circle. Then it is held there. Without a
fresh part that is at kappa(model, N, mu)/eta (`thresholds`); fresh and stale matrices do not commute in general, and
the multipliers then are those of the block map (`block_map`) at places of the flow.
"""

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.conventions import Convention, Model
from bandit_lab.theory.thresholds import exact
from experiments.shared.theory.gradient_flow import Climb, follow, sharpness, stiffness_parts

STIFFEST = 12
"""Directions that are kept of fresh and stale matrices."""
GROWS = 1e-3
"""Of a multiplier beyond 1; less is the flow's own expansion in soft directions."""
PLACES = 40
"""Of the flow at which multipliers are looked at, and again between the two about the edge."""


def edge(
    model: Model, refresh_interval: int, momentum: float, learning_rate: float, convention: Convention = "heavy_ball"
) -> float:
    """The stiffness, in the units of 1/learning rate, at which a wholly stale update loses stability.

    Adam with a second moment that hardly changes in a period: convention `ema` with momentum beta_1. The stiffness is
    then the largest eigenvalue of P^{-1/2} H P^{-1/2}, P the diagonal of what Adam divides by (arXiv 2207.14484).
    Raises what `thresholds.exact` raises, and ValueError for a learning rate that is not positive.
    """
    _checks.require(learning_rate > 0, "learning_rate", "a number > 0", learning_rate)
    return exact(model, refresh_interval, momentum, convention).kappa / learning_rate


def edge_along_flow(
    climb: Climb,
    advantage: str,
    estimator: str,
    learning_rate: float,
    refresh_interval: int,
    duration: float,
    size: float,
    late: float = 2 / 3,
) -> float:
    """The flow's stiffness where a multiplier of model `refresh` without momentum leaves the unit circle for good.

    Where none is outside at the end of the flow: its median stiffness after the share `late` of its duration.

    Args:
      estimator: of `gradient_flow.ESTIMATORS`. duration: of the flow, in steps of unit learning rate.
      size: of the flow's integration, as of `follow`.

    Raises:
      ValueError: an unknown advantage or estimator, a bad interval, a learning rate or duration that is not positive.
    """
    _checks.require(learning_rate > 0, "learning_rate", "a number > 0", learning_rate)
    _checks.require(duration > 0, "duration", "a number > 0", duration)

    def radius(theta: np.ndarray) -> float:
        loop = LinearLoop(*stiffness_parts(climb, advantage, estimator, theta, min(STIFFEST, len(theta))))
        return float(np.max(np.abs(np.linalg.eigvals(loop.map(learning_rate, refresh_interval)))))

    times = np.linspace(0, duration, PLACES + 1)[1:]
    path = follow(climb, advantage, times, size)
    inside = [place for place, theta in enumerate(path) if radius(theta) <= 1 + GROWS]
    if inside and inside[-1] == len(path) - 1:
        return float(np.median(sharpness(climb, advantage, path)[int(late * len(path)) :]))
    last = inside[-1] if inside else 0
    times = np.linspace(times[last], times[last + 1], PLACES + 1)  # the stiffness may rise steeply between two places
    path = follow(climb, advantage, times, size, every=1)
    sizes = np.array([radius(theta) for theta in path])
    i = max(int(np.argmax(sizes > 1 + GROWS)), 1)
    return float(np.interp(1.0, sizes[i - 1 : i + 1], sharpness(climb, advantage, path)[i - 1 : i + 1]))
