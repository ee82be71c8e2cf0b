"""Reverse KL, KL(pi || ref) = sum_k pi_k log(pi_k / ref_k)."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.kl.base import register_kl


@register_kl("exact")
@dataclass(frozen=True)
class Exact:
    """Summed over all arms: grad KL = sum_k pi_k (log pi_k - log ref_k) grad log pi_k."""

    sampled = False

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """log pi - log ref."""
        return log_policy - log_reference

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """KL(pi || ref) [X]."""
        return jnp.sum(jnp.exp(log_policy) * (log_policy - log_reference), axis=-1)
