"""The sampled k3 loss, ref/pi - 1 - log(ref/pi) per drawn action."""

import math
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
        """1 - ref/pi; finite also where that overflows: an arm that was not drawn counts 0 times it."""
        return 1 - _ratio(log_reference - log_policy)

    def expected(self, share: Array, log_share: Array, log_policy: Array, log_reference: Array) -> Array:
        """share - ref share/pi."""
        return share - _ratio(log_reference + (log_share - log_policy))

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """KL(ref || pi) [X]."""
        return jnp.sum(jnp.exp(log_reference) * (log_reference - log_policy), axis=-1)


def _ratio(logarithm: Array) -> Array:
    """exp(logarithm), at most e^-8 of the largest number: room for a KL weight, and for a sum over arms."""
    largest = math.log(jnp.finfo(logarithm.dtype).max) - 8
    return jnp.exp(jnp.minimum(logarithm, largest))  # expm1 is dear, and the argument is a difference already
