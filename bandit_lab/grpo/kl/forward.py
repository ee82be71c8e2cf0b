"""Forward KL, KL(ref || pi) = sum_k ref_k log(ref_k / pi_k), summed over all arms."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.kl.base import register_kl
from bandit_lab.grpo.kl.third import K3


@register_kl("forward")
@dataclass(frozen=True)
class Forward(K3):
    """grad KL = sum_k (pi_k - ref_k) grad log pi_k: the mean of `k3` on policy, and without its noise."""

    sampled = False

    def expected(self, share: Array, log_share: Array, log_policy: Array, log_reference: Array) -> Array:
        """pi - ref, the shares being the policy."""
        return share - jnp.exp(log_reference)
