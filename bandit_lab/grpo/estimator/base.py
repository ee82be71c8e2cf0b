"""The interface of an estimator, and what several of them share."""

from collections.abc import Callable
from typing import Protocol, cast

import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array


class Estimator(Protocol):
    """The gradient of one action a with advantage A is  weight(ratio, A) * A * grad log pi(a).

    ratio = pi(a) / pi_old(a), current over behaviour policy.

    For developers. A new estimator is one file in this folder (or a module of yours) with a frozen (hashable)
    dataclass under `@register_estimator("its_name")`, whose fields are its options, checked by itself. It
    has

    - `at_snapshot`: whether grad log pi and the KL term are taken at the behaviour policy (True) or at the current
      policy (False), a class attribute;
    - `weight(ratio, advantage)`: scalars -> scalar factor; it is a value, never differentiated;
    - `ignores_ratio`: True if that factor is always 1 (may be left out: then it is worked out);

    and, where an action may be a sequence of L tokens whose own ratios count (on a bandit without `log_token_policy`
    it is not asked for; without it the ratio is that of the whole sequence):

    - `token_weights(ratio, advantage)`: ratios [L, ...] of the tokens and advantages [...] -> factors [L, ...] of
      A grad log pi(token | those before it). `TokenMean` has the usual one: each token by its own ratio, over L.

    An estimator in which the actions of a group depend on each other has `of_group` instead of `weight`, see
    `GroupEstimator`.
    """

    @property
    def at_snapshot(self) -> bool:
        """Whether the gradient is taken at the behaviour policy."""
        ...

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """Factor of one action's advantage."""
        ...


class GroupEstimator(Protocol):
    """The gradient of one group is the sum over its actions of share * coefficient * grad log pi(action).

    For developers. `of_group(log_policy, log_old, advantage, share)` takes four arrays of one shape, [M] or [M, L] for
    L groups side by side: current and behaviour log-probabilities, advantages, and shares that add up to 1 along the
    first axis; and gives the coefficients, values that are never differentiated. In a drawn group the entries are its
    actions and every share is 1/G; in an infinite group they are all pairs (arm, reward value), and the shares their
    probabilities; on the fast path a drawn group has those pairs too, with the shares in which they were drawn (0 for
    what was not). Exact means of finite groups are sums over enumerated groups (`simulation.enumerated_group`).
    """

    @property
    def at_snapshot(self) -> bool:
        """Whether the gradient is taken at the behaviour policy."""
        ...

    def of_group(self, log_policy: Array, log_old: Array, advantage: Array, share: Array) -> Array:
        """Coefficients of the actions of one group."""
        ...


def group_rule(estimator: object) -> Callable[[Array, Array, Array, Array], Array]:
    """`of_group` of an estimator that has one."""
    return cast(GroupEstimator, estimator).of_group


ESTIMATORS: Registry[Estimator] = Registry("estimator", ("at_snapshot",))
register_estimator = ESTIMATORS.register


class TokenMean:
    """Each token of a sequence counts by its own ratio, and a sequence by the mean over its tokens."""

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """Factor of one action, or token."""
        raise NotImplementedError

    def token_weights(self, ratio: Array, advantage: Array) -> Array:
        """weight(ratio of the token, A) / L: [L, ...] -> [L, ...]."""
        return self.weight(ratio, advantage) / ratio.shape[0]


def clipped_weight(ratio: Array, advantage: Array, low: float, high: float) -> Array:
    """The ratio, and 0 where the objective min(ratio A, clip(ratio, 1 - low, 1 + high) A) does not depend on it."""
    flat = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
    return jnp.where(flat, 0, ratio)
