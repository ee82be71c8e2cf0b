"""Rewards less the mean of the others in the group."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import register_advantage
from bandit_lab.grpo.advantage.dr_grpo import DrGRPO


@register_advantage("rloo")
@dataclass(frozen=True)
class RLOO(DrGRPO):
    """A_i = r_i - mean of the others' rewards = G/(G-1) (r_i - mean). arXiv 2402.14740 (leave-one-out).

    In an infinite group leaving one out changes nothing: there it is Dr. GRPO.
    """

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """G / (G - 1)."""
        return jnp.full_like(variance, 1 if size is None else size / (size - 1))
