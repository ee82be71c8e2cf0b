"""Many arms in a few modes: completions that share an answer, some modes correct and some wrong.

A softmax over arms, one logit each; all arms of a mode have the same reward. Derived here: with n_m arms in mode m,
equally likely within it, the mean update keeps them so. The log-odds of two modes with rewards 1 and 0 move at
h p (1-p) (1/n_1 + 1/n_0): two arms with another time scale. Started unequal, arms of one mode drift apart (each logit
moves in proportion to its own probability).
"""

from collections.abc import Sequence

import numpy as np

from bandit_lab import _checks
from bandit_lab.bandits.base import register_bandit
from bandit_lab.bandits.tabular import TabularBandit, k_arm

MOST_ARMS = 2**16


@register_bandit("modes")
def modes(
    rewards: Sequence[float] = (0.9, 0.9, 0.1, 0.1),
    sizes: Sequence[int] = (2, 2, 4, 8),
    spread: float = 0.0,
    seed: int = 0,
) -> TabularBandit:
    """Modes with success probabilities `rewards` [M] and `sizes` [M] arms each.

    Args:
      rewards: [M] success probability of every arm of a mode (one value for correct modes, another for wrong ones).
      sizes: [M] arms per mode, >= 1. spread: std of the arms' reference logits, which are normal and drawn with `seed`;
        training starts at the reference.

    Raises:
      ValueError: no two arms, a number of sizes that differs, a size < 1 or too many, spread < 0, what `k_arm` raises.
    """
    means = _checks.rewards("bandit.rewards", rewards)
    _checks.require(len(sizes) == len(means), "bandit.sizes", f"{len(means)} numbers", list(sizes))
    counts = [_checks.integer(f"bandit.sizes[{i}]", size, 1) for i, size in enumerate(sizes)]
    _checks.require(sum(counts) <= MOST_ARMS, "bandit.sizes", f"at most {MOST_ARMS} arms together", sum(counts))
    _checks.non_negative("bandit.spread", spread)
    mode = np.repeat(np.arange(len(means)), counts)
    draw = np.random.default_rng(_checks.integer("bandit.seed", seed, 0))
    logits = (spread * draw.standard_normal(len(mode))).tolist()
    return k_arm([means[m] for m in mode], logits, logits)
