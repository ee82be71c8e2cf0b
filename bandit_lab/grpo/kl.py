"""KL estimators: how the distance to the reference policy is penalised, exactly or by drawn actions.

KL(pi || ref) is called the reverse one, KL(ref || pi) the forward one. The sampled losses k1, k2 and k3 are those of
joschu.net/blog/kl-approx.html, per drawn action: log(pi/ref), log(pi/ref)^2 / 2 and ref/pi - 1 - log(ref/pi).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array


class KL(Protocol):
    """The gradient of the KL term is  sum_k share_k slope_k grad log pi(k).

    The share of arm k is its current probability, or, where the term is sampled, the share of the drawn actions that
    fell on it (drawn from the behaviour policy, and not reweighted: that is how trainers do it).

    For developers. A new estimator is a frozen (hashable) dataclass under `@register_kl("its_name")`, here or in a
    module of yours, whose fields are its options, checked by itself. It has

    - `sampled`: whether shares are those of the drawn actions, a class attribute;
    - `slope(log_policy, log_reference)`: arrays of one shape -> that shape, values that are never differentiated;
    - `divergence(log_policy, log_reference)`: [X, K] each -> [X], the function whose gradient is the mean of the term
      on policy, in nats;

    and, where the slope grows like ref/pi, so that share times slope is no number at a share below the smallest one:

    - `expected(share, log_share, log_policy, log_reference)`: share times slope without that division, for shares that
      are probabilities (may be left out: then it is that product). The reference may have fewer axes.
    """

    @property
    def sampled(self) -> bool:
        """Whether it sees drawn actions."""
        ...

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """Coefficient of grad log pi of every arm."""
        ...

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """What is descended in the mean, on policy [X]."""
        ...


KL_ESTIMATORS: Registry[KL] = Registry("kl_estimator", ("sampled", "slope", "divergence"))
register_kl = KL_ESTIMATORS.register


@register_kl("exact")
@dataclass(frozen=True)
class Exact:
    """Reverse KL summed over all arms: grad KL = sum_k pi_k (log pi_k - log ref_k) grad log pi_k."""

    sampled = False

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """log pi - log ref."""
        return log_policy - log_reference

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """KL(pi || ref) [X]."""
        return jnp.sum(jnp.exp(log_policy) * (log_policy - log_reference), axis=-1)


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


@register_kl("k2")
@dataclass(frozen=True)
class K2(Exact):
    """Its gradient is log(pi/ref) grad log pi; on policy that is in the mean the exact one of the reverse KL.

    joschu.net/blog/kl-approx.html; as a loss arXiv 2510.01555.
    """

    sampled = True


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


@register_kl("forward")
@dataclass(frozen=True)
class Forward(K3):
    """Forward KL summed over all arms: grad KL = sum_k (pi_k - ref_k) grad log pi_k, the mean of `k3` on policy."""

    sampled = False

    def expected(self, share: Array, log_share: Array, log_policy: Array, log_reference: Array) -> Array:
        """pi - ref, the shares being the policy."""
        return share - jnp.exp(log_reference)
