"""Success probabilities that change while a policy is trained on them: at a step, or little by little."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import register_bandit
from bandit_lab.bandits.tabular import TabularBandit, k_arm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MovingBandit(TabularBandit):
    """A `TabularBandit` with a clock: rewards of 0 and 1 whose chances move evenly from one table to another.

    later: [1, K, 2] `law.probabilities` from step `last` on. first, last: steps between which they move, real numbers.
    """

    later: Array
    first: Array
    last: Array

    def at(self, step: Array) -> TabularBandit:
        """The bandit as it is at that step."""
        share = jnp.clip((step - self.first) / (self.last - self.first), 0, 1)
        chances = (1 - share) * self.law.probabilities + share * self.later
        law = replace(self.law, probabilities=chances)
        return TabularBandit(law, self.initial_parameters, self.reference_log_policy)


@register_bandit("drifting")
def drifting(
    rewards: Sequence[float] = (0.9, 0.1),
    later: Sequence[float] = (0.1, 0.9),
    first: int = 0,
    last: int = 1000,
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
) -> MovingBandit:
    """K arms whose success probabilities move evenly from `rewards` to `later`.

    Args:
      rewards, later: [K] success probabilities up to step `first` and from step `last` on.
      reference_logits, initial_logits: as in `k_arm`.

    Raises:
      ValueError: what `k_arm` raises; another number of later rewards, a first step below 0, a last one not above it.
    """
    before = k_arm(rewards, reference_logits, initial_logits)
    means = np.array(_checks.rewards("bandit.later", later, len(rewards)))
    for i, p in enumerate(means.tolist()):
        _checks.require(0 <= p <= 1, f"bandit.later[{i}]", "a success probability in [0, 1]", p)
    start = _checks.integer("bandit.first", first, 0)
    end = _checks.integer("bandit.last", last, start + 1)
    moves = (np.stack([1 - means, means], axis=-1)[None], np.float64(start), np.float64(end))
    unmoved = (before.law, before.initial_parameters, before.reference_log_policy)
    return MovingBandit(*unmoved, *map(jax.device_put, moves))


@register_bandit("switched")
def switched(
    rewards: Sequence[float] = (0.9, 0.1),
    later: Sequence[float] = (0.1, 0.9),
    step: int = 500,
    reference_logits: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
) -> MovingBandit:
    """K arms with success probabilities `rewards` before step `step`, and `later` from it on.

    Args:
      step: >= 1. The others are those of `drifting`.

    Raises:
      ValueError: what `drifting` raises; a step < 1.
    """
    last = _checks.integer("bandit.step", step, 1)
    return drifting(rewards, later, last - 1, last, reference_logits, initial_logits)
