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

    and, where an action's advantage is (r - mean of the group) times a number that all of the group share (without it
    only the reference path runs):

    - `scale(variance, silent, size)`: that number for many groups at once, from the population variances [L] of their
      rewards, whether all rewards are equal [L], and G (None: an infinite group).
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


def _inverse_std(variance: Array, silent: Array, eps: float) -> Array:
    """1 / (sqrt(variance) + eps), and exactly 0 for silent groups; smooth elsewhere."""
    std = jnp.sqrt(jnp.where(silent, 1, variance))
    return jnp.where(silent, 0, 1 / (std + eps))


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

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]. The test of silence is exact, r_i = r_1 for all i: no rounding error can pass it."""
        deviation = rewards - jnp.mean(rewards)
        variance = jnp.sum(deviation**2) / (rewards.shape[0] - self.ddof)
        return deviation * _inverse_std(variance, jnp.all(rewards == rewards[0]), self.eps)

    def population(self, values: Array, probabilities: Array) -> Array:
        """(values - J) / (sigma + eps) with J and sigma of the law."""
        deviation = values - leading_sum(values * probabilities)
        variance = leading_sum(deviation**2 * probabilities)
        return deviation * _inverse_std(variance, variance <= 0, self.eps)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1 / (std + eps) [L], 0 for silent groups."""
        freedom = 1 if size is None else size / (size - self.ddof)
        return _inverse_std(variance * freedom, silent, self.eps)


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

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]."""
        return rewards - jnp.mean(rewards)

    def population(self, values: Array, probabilities: Array) -> Array:
        """values - J."""
        return values - leading_sum(values * probabilities)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1 [L]."""
        return jnp.ones_like(variance)


@dataclass(frozen=True)
class RLOO:
    """A_i = r_i - mean of the others' rewards = G/(G-1) (r_i - mean). arXiv 2402.14740 (leave-one-out)."""

    smallest_group: int = 2
    linear: bool = True
    drops_silent: bool = False

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]."""
        size = rewards.shape[0]
        return (rewards - jnp.mean(rewards)) * (size / (size - 1))

    def population(self, values: Array, probabilities: Array) -> Array:
        """values - J: in an infinite group leaving one out changes nothing."""
        return values - leading_sum(values * probabilities)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """G / (G - 1) [L]."""
        return jnp.full_like(variance, 1 if size is None else size / (size - 1))


ADVANTAGES: dict[str, Callable[..., Advantage]] = {"grpo": GRPO, "dr_grpo": DrGRPO, "rloo": RLOO, "dapo": DAPO}
