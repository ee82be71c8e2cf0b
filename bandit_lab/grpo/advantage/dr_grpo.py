"""Rewards less their group's mean."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import Scaled, register_advantage


@register_advantage("dr_grpo")
@dataclass(frozen=True)
class DrGRPO(Scaled):
    """A_i = r_i - mean: group-centred, not divided by the std. arXiv 2503.20783 (Dr. GRPO)."""

    linear = True

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1."""
        return jnp.ones_like(variance)
