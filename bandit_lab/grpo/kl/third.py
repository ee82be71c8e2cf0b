"""The sampled k3 loss, ref/pi - 1 - log(ref/pi) per drawn action."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.kl.base import register_kl


@register_kl("k3")
@dataclass(frozen=True)
class K3:
    """Its gradient is (1 - ref/pi) grad log pi; on policy that is beta (pi - ref) in the mean: the *forward* KL.

    joschu.net/blog/kl-approx.html; the loss of GRPO, arXiv 2402.03300 eq. 4.
    """

    sampled = True

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """1 - ref/pi."""
        return 1 - jnp.exp(log_reference - log_policy)  # expm1 is dear, and the argument is a difference already

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """KL(ref || pi) [X]."""
        return jnp.sum(jnp.exp(log_reference) * (log_reference - log_policy), axis=-1)
