"""The stability boundary that a finite temperature leaves: how hot a run may be before it collapses.

Derived here from the exact two-arm chain. A run counts as collapsed while its gap stands beyond `collapsed_gap` (policy
at the good arm's vertex, groups silent). The practical learning rate is the one at which the probability of standing
there after a given number of blocks reaches a stated level; it lies below the deterministic threshold, and rises to it
as G * prompts grows (temperature falls).

`staleness_bias` is the mean error of a stale gradient to first order, H_stale times the distance covered in the lag,
of order lag * learning rate (arXiv 2607.01083).
"""

from dataclasses import replace

import numpy as np

from bandit_lab import _checks
from bandit_lab.theory.stiffness import Split
from bandit_lab.theory.two_arm_chain import TwoArmChain


def collapse_probability(chain: TwoArmChain, collapsed_gap: float, blocks: int, start: float = 0.0) -> float:
    """Probability that the gap lies beyond `collapsed_gap` after `blocks` blocks from gap `start`.

    Raises ValueError for a gap outside the grid.
    """
    _checks.require(chain.low < collapsed_gap < chain.high, "collapsed_gap", "a gap inside the grid", collapsed_gap)
    law = chain.evolve(chain.start(start), blocks)
    return float(law[chain.grid > collapsed_gap].sum())


def practical_learning_rate(
    chain: TwoArmChain,
    deterministic: float,
    collapsed_gap: float,
    steps: int,
    level: float = 0.05,
    start: float = 0.0,
    tolerance: float = 0.02,
) -> float | None:
    """Learning rate at which `level` of the runs stand collapsed after `steps` updates (bisection in its logarithm).

    Searched between 0.05 and 1 times the `deterministic` threshold, to the relative `tolerance`; None if fewer collapse
    even there, 0.05 times the threshold if more collapse already there.
    Raises ValueError for a level outside (0, 1).
    """
    _checks.require(0 < level < 1, "level", "a probability inside (0, 1)", level)
    blocks = max(1, steps // chain.refresh_interval)

    def collapsed(rate: float) -> bool:
        return collapse_probability(replace(chain, learning_rate=rate), collapsed_gap, blocks, start) >= level

    low, high = 0.05 * deterministic, deterministic
    if not collapsed(high):
        return None
    if collapsed(low):
        return low
    while high / low > 1 + tolerance:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if collapsed(middle) else (middle, high)
    return float(np.sqrt(low * high))


def staleness_bias(split: Split, velocity: np.ndarray, lag: float) -> np.ndarray:
    """Mean error [K] of the drift at a rollout policy `lag` steps old: H_stale velocity lag, `velocity` [K] per step.

    First order; with steps of size eta |g| it is of order lag * eta (arXiv 2607.01083).
    """
    return split.stale @ np.asarray(velocity, float) * lag
