"""The interface of a KL estimator."""

from typing import Protocol

from bandit_lab._registry import Registry
from bandit_lab._types import Array
from bandit_lab.grpo import probes


class KL(Protocol):
    """The gradient of the KL term is  sum_k share_k slope_k grad log pi(k).

    The share of arm k is its current probability, or, where the term is sampled, the share of the drawn actions that
    fell on it (drawn from the behaviour policy, and not reweighted: that is how trainers do it).

    For developers. A new estimator is one file in this folder (or a module of yours) with a frozen (hashable)
    dataclass under `@register_kl("its_name")`, whose fields are its options, checked by itself. It has

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


KL_ESTIMATORS: Registry[KL] = Registry("kl_estimator", ("sampled", "slope", "divergence"), probe=probes.kl_estimator)
register_kl = KL_ESTIMATORS.register
