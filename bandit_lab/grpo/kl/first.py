"""The sampled k1 loss, log(pi/ref) per drawn action."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.kl.base import register_kl


@register_kl("k1")
@dataclass(frozen=True)
class K1:
    """Its gradient is grad log pi, whose mean on policy is 0: an unbiased value, and a loss that holds nothing.

    joschu.net/blog/kl-approx.html; as a loss arXiv 2510.01555. (Subtracted from the reward instead, its
    gradient would be that of `k2`.)
    """

    sampled = True

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """1."""
        return jnp.ones_like(log_policy)

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """0 [X]."""
        return jnp.zeros_like(log_policy[..., 0])
