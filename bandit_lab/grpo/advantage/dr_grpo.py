"""Rewards less their group's mean."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._numerics import leading_sum
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import register_advantage


@register_advantage("dr_grpo")
@dataclass(frozen=True)
class DrGRPO:
    """A_i = r_i - mean: group-centred, not divided by the std. arXiv 2503.20783 (Dr. GRPO)."""

    smallest_group = 2
    linear = True
    centred = True
    drops_silent = False

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]."""
        return rewards - jnp.mean(rewards)

    def population(self, values: Array, probabilities: Array) -> Array:
        """values - J."""
        return values - leading_sum(values * probabilities)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1 [L]."""
        return jnp.ones_like(variance)
