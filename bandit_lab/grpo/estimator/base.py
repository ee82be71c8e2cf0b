"""The interface of an estimator, and what several of them share."""

from typing import Any, Protocol

import jax.numpy as jnp

from bandit_lab._registry import Registry
from bandit_lab._types import Array


class Estimator(Protocol):
    """The gradient of one action a with advantage A is  weight(ratio, A) * A * grad log pi(a).

    ratio = pi(a) / pi_old(a), current over behaviour policy.

    For developers. A new estimator is one file in this folder, or a module of yours: a frozen dataclass under
    `@register_estimator("its_name")`. Its fields are its options, which it checks. It has

    - `at_snapshot`: whether grad log pi and the KL term are taken at the behaviour policy (True) or at the current
      policy (False), a class attribute;
    - `weight(ratio, advantage)`: scalars -> scalar factor; it is a value, never differentiated;

    and, only where the default below is not right,

    - `ignores_ratio`: True if that factor is always 1;
    - `token_weights(ratio, advantage)`, where an action may be a sequence of L tokens whose own ratios count: ratios
      [L, ...] of the tokens and advantages [...] -> factors [L, ...] of A grad log pi(token | those before it).
      `TokenMean` has the usual one: each token by its own ratio, over L. On a bandit without `log_token_policy` it is
      not asked for; without it the ratio is that of the whole sequence.

    Where the actions of a group depend on each other, it has no `weight`. The gradient of a group is then the sum over
    its actions of share * coefficient * grad log pi(action), with

    - `of_group(log_policy, log_old, advantage, share)`: four arrays of one shape, [M] or [M, L] for L groups side by
      side (current and behaviour log-probabilities, advantages, and shares that add up to 1 along the first axis) ->
      the coefficients, values that are never differentiated. In a drawn group the entries are its actions and every
      share is 1/G; in an infinite group they are all pairs (arm, reward value), and the shares their probabilities; on
      the fast path a drawn group has those pairs too, with the shares in which they were drawn (0 for what was not).
      Exact means of finite groups are sums over enumerated groups (`simulation.enumerated_group`);
    - `of_weights(weights, log_old, advantage, share)`, if that is cheaper: the same from the current probabilities up
      to a factor.
    """

    at_snapshot: bool
    ignores_ratio: bool = False
    token_weights: Any = None
    of_group: Any = None
    of_weights: Any = None

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """Factor of one action's advantage."""
        raise NotImplementedError


ESTIMATORS: Registry[Estimator] = Registry("estimator", ("at_snapshot",), base=Estimator)
register_estimator = ESTIMATORS.register


class TokenMean(Estimator):
    """Each token of a sequence counts by its own ratio, and a sequence by the mean over its tokens."""

    def token_weights(self, ratio: Array, advantage: Array) -> Array:
        """weight(ratio of the token, A) / L: [L, ...] -> [L, ...]."""
        return self.weight(ratio, advantage) / ratio.shape[0]


def clipped_weight(ratio: Array, advantage: Array, low: float, high: float) -> Array:
    """The ratio, and 0 where the objective min(ratio A, clip(ratio, 1 - low, 1 + high) A) does not depend on it."""
    flat = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
    return jnp.where(flat, 0, ratio)
