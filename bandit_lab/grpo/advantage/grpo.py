"""Rewards less their group's mean, over the group's std."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._numerics import leading_sum
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import inverse_std, register_advantage


@register_advantage("grpo")
@dataclass(frozen=True)
class GRPO:
    """A_i = (r_i - mean) / (std + eps), zero for a silent group (all rewards equal). arXiv 2402.03300, sec. 4.1.

    ddof = 0 is the population std (verl's torch.std uses 1). eps, in units of the reward, is 0 by default because a
    silent group is set to zero explicitly: an eps there would only turn rounding errors into advantages. Raises
    ValueError unless eps >= 0 and ddof is 0 or 1.
    """

    eps: float = 0.0
    ddof: int = 0
    smallest_group = 2
    linear = False
    centred = True
    drops_silent = False

    def __post_init__(self) -> None:
        _checks.non_negative("advantage.eps", self.eps)
        _checks.require(self.ddof in (0, 1), "advantage.ddof", "0 or 1", self.ddof)

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]. The test of silence is exact, r_i = r_1 for all i: no rounding error can pass it."""
        deviation = rewards - jnp.mean(rewards)
        variance = jnp.sum(deviation**2) / (rewards.shape[0] - self.ddof)
        return deviation * inverse_std(variance, jnp.all(rewards == rewards[0]), self.eps)

    def population(self, values: Array, probabilities: Array) -> Array:
        """(values - J) / (sigma + eps) with J and sigma of the law."""
        deviation = values - leading_sum(values * probabilities)
        variance = leading_sum(deviation**2 * probabilities)
        return deviation * inverse_std(variance, variance <= 0, self.eps)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1 / (std + eps) [L], 0 for silent groups."""
        freedom = 1 if size is None else size / (size - self.ddof)
        return inverse_std(variance * freedom, silent, self.eps)
