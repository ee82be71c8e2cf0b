"""KL estimators: how the distance to the reference policy is penalised, exactly or by drawn actions.

KL(pi || ref) is called the reverse one, KL(ref || pi) the forward one. The sampled loss k3 is that of
joschu.net/blog/kl-approx.html, per drawn action: ref/pi - 1 - log(ref/pi).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array


class KL(Protocol):
    """The gradient of the KL term is  sum_k share_k slope_k grad log pi(k).

    The share of arm k is its current probability. Where the term is sampled, it is the share of the drawn actions: from
    the behaviour policy and not reweighted, as in trainers.

    For developers. A new estimator is a frozen (hashable) dataclass under `@register_kl("its_name")`, here or in a
    module of yours, whose fields are its options, checked by itself. It has

    - `sampled`: whether shares are those of the drawn actions, a class attribute;
    - `slope(log_policy, log_reference)`: arrays of one shape -> that shape, values that are never differentiated;
    - `divergence(log_policy, log_reference)`: [X, K] each -> [X], the function whose gradient is the mean of the term
      on policy, in nats;

    and, where the slope grows like ref/pi, so that share times slope overflows at tiny shares:

    - `expected(share, log_share, log_policy, log_reference)`: share times slope without that division, for shares that
      are probabilities (may be left out: then it is that product). The reference may have fewer axes.
    """

    sampled: bool
    expected: Callable[[Array, Array, Array, Array], Array] | None = None

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """Coefficient of grad log pi of every arm."""
        ...

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """The penalty whose gradient the sampled term estimates, on policy [X], nats."""
        ...


KL_ESTIMATORS: Registry[KL] = Registry("kl_estimator", ("sampled", "slope", "divergence"), base=KL)
register_kl = KL_ESTIMATORS.register


@register_kl("exact")
@dataclass(frozen=True)
class Exact(KL):
    """Reverse KL summed over all arms: grad KL = sum_k pi_k (log pi_k - log ref_k) grad log pi_k."""

    sampled = False

    def slope(self, log_policy: Array, log_reference: Array) -> Array:
        """log pi - log ref."""
        return log_policy - log_reference

    def divergence(self, log_policy: Array, log_reference: Array) -> Array:
        """KL(pi || ref) [X]."""
        return jnp.sum(jnp.exp(log_policy) * (log_policy - log_reference), axis=-1)


@register_kl("k3")
@dataclass(frozen=True)
class K3(KL):
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
