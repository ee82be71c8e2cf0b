"""From the rewards of a group to the advantage of each of its actions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp

from bandit_lab._numerics import leading_sum
from bandit_lab._types import Array


class Advantage(Protocol):
    """How rewards of one group become advantages.

    For developers. A new advantage is a frozen (hashable) dataclass with

    - `smallest_group`: the least group size for which it means something;
    - `linear`: whether it is a linear function of the group's rewards (then the mean gradient is that of J);
    - `drops_silent`: whether silent groups (all rewards equal) are thrown away and drawn anew;
    - `__call__(rewards)`: [G] rewards of one group -> [G] advantages;
    - `population(values, probabilities)`: the limit of an infinite group with reward law `probabilities` [U] on
      `values` [U] -> advantage [U] of an action that got each value; also for many laws, [U, 1] and [U, L] -> [U, L].

    and, for the fast path (without them the reference path runs), two more:

    - `of_counts(values, counts, size, silent)`: the same advantages for many groups at once, each group given by how
      often every value occurred: [U, 1], [U, L], G, [L] -> advantage [U, L] of an action that got each value. A value
      may stand in the list more than once; `silent` [L] says which groups have equal rewards;
    - `centred`: whether the advantages of every group add up to zero.
    """

    @property
    def smallest_group(self) -> int:
        """Least group size."""
        ...

    @property
    def linear(self) -> bool:
        """Whether it is linear in the rewards."""
        ...

    @property
    def drops_silent(self) -> bool:
        """Whether groups are drawn conditional on not being silent."""
        ...

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G] of one group with rewards [G]."""
        ...

    def population(self, values: Array, probabilities: Array) -> Array:
        """Advantages [U] of each reward value [U] in an infinite group with that law [U]."""
        ...


def _divide_by_std(deviation: Array, variance: Array, eps: float) -> Array:
    """deviation / (sqrt(variance) + eps), and exactly 0 where all deviations are (a silent group); smooth elsewhere."""
    silent = variance <= 0
    std = jnp.sqrt(jnp.where(silent, 1, variance))
    return jnp.where(silent, 0, deviation / (std + eps))


def _centre(values: Array, counts: Array, size: int) -> Array:
    """values minus their mean in each group: [U, 1] and [U, L] -> [U, L]."""
    return values - leading_sum(values * counts) * (1 / size)


@dataclass(frozen=True)
class GRPO:
    """A_i = (r_i - mean) / (std + eps), zero for a silent group (all rewards equal). arXiv 2402.03300, sec. 4.1.

    ddof = 0 is the population std (verl's torch.std uses 1). eps is 0 by default because a silent group is set to
    zero explicitly: an eps there would only turn rounding errors into advantages.
    """

    eps: float = 0.0
    ddof: int = 0
    smallest_group: int = 2
    linear: bool = False
    drops_silent: bool = False
    centred: bool = True

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]. The test of silence is exact, r_i = r_1 for all i: no rounding error can pass it."""
        deviation = rewards - jnp.mean(rewards)
        variance = jnp.sum(deviation**2) / (rewards.shape[0] - self.ddof)
        variance = jnp.where(jnp.all(rewards == rewards[0]), 0, variance)
        return _divide_by_std(deviation, variance, self.eps)

    def population(self, values: Array, probabilities: Array) -> Array:
        """(values - J) / (sigma + eps) with J and sigma of the law."""
        deviation = values - leading_sum(values * probabilities)
        return _divide_by_std(deviation, leading_sum(deviation**2 * probabilities), self.eps)

    def of_counts(self, values: Array, counts: Array, size: int, silent: Array) -> Array:
        """Advantages [U, L]."""
        deviation = _centre(values, counts, size)
        variance = leading_sum(counts * deviation * deviation) * (1 / (size - self.ddof))
        scale = 1 / (jnp.sqrt(jnp.where(silent, 1, variance)) + self.eps)
        return deviation * jnp.where(silent, 0, scale)


@dataclass(frozen=True)
class DAPO(GRPO):
    """GRPO's advantage in groups that are drawn conditional on not being silent. arXiv 2503.14476, eq. 11.

    Prompts and groups are drawn until a group is not silent, so that the mean over groups is the GRPO mean divided by
    the probability of that; a prompt that is more often silent is seen less often. DAPO's asymmetric clip is the
    estimator `clip_higher`, its zero KL weight is `kl_weight=0`.
    """

    drops_silent: bool = True


@dataclass(frozen=True)
class DrGRPO:
    """A_i = r_i - mean: group-centred, not divided by the std. arXiv 2503.20783 (Dr. GRPO)."""

    smallest_group: int = 2
    linear: bool = True
    drops_silent: bool = False
    centred: bool = True

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]."""
        return rewards - jnp.mean(rewards)

    def population(self, values: Array, probabilities: Array) -> Array:
        """values - J."""
        return values - leading_sum(values * probabilities)

    def of_counts(self, values: Array, counts: Array, size: int, silent: Array) -> Array:
        """Advantages [U, L]."""
        return _centre(values, counts, size)


@dataclass(frozen=True)
class RLOO:
    """A_i = r_i - mean of the others' rewards = G/(G-1) (r_i - mean). arXiv 2402.14740 (leave-one-out)."""

    smallest_group: int = 2
    linear: bool = True
    drops_silent: bool = False
    centred: bool = True

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]."""
        size = rewards.shape[0]
        return (rewards - jnp.mean(rewards)) * (size / (size - 1))

    def population(self, values: Array, probabilities: Array) -> Array:
        """values - J: in an infinite group leaving one out changes nothing."""
        return values - leading_sum(values * probabilities)

    def of_counts(self, values: Array, counts: Array, size: int, silent: Array) -> Array:
        """Advantages [U, L]."""
        return _centre(values, counts, size) * (size / (size - 1))


ADVANTAGES: dict[str, Callable[..., Advantage]] = {"grpo": GRPO, "dr_grpo": DrGRPO, "rloo": RLOO, "dapo": DAPO}
