"""How far the current policy has moved from the one that acted, and what an action's advantage is multiplied by."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.estimator import group_rule
from bandit_lab.grpo.update import Learner

_LARGEST = 0.9
"""Logarithm of the largest ratio, over that of its type's largest number."""


class Shift(NamedTuple):
    """Behaviour and current policy at the same actions.

    log_old, log_policy: [X, K]. ratio: [X, K] current over behaviour policy, or [L, X, K] of each token where the
    estimator weighs tokens.
    """

    log_old: Array
    log_policy: Array
    ratio: Array

    @property
    def log_frequency(self) -> Array:
        """[X, K] logarithm of the share of all actions that falls on each arm in the mean: contexts are uniform."""
        return self.log_old - math.log(self.log_old.shape[0])

    def at(self, context: Array, arms: Array) -> "Shift":
        """The same at some arms [G] of a context: [G] each, or [L, G]."""
        return Shift(self.log_old[context, arms], self.log_policy[context, arms], self.ratio[..., context, arms])

    def spread(self, axes: int) -> "Shift":
        """The same with so many axes of length 1 behind the others."""
        return Shift(*(jnp.expand_dims(part, tuple(range(-axes, 0))) for part in self))


def shift_of(learner: Learner, theta: Array, behaviour: Array) -> tuple[Array, Shift]:
    """(pi_behaviour [X, K], `Shift` to the policy at theta).

    A ratio that its type cannot hold is held at a largest one, and the probability beside it is raised to pi / ratio.
    So their product stays pi, where it would be 0 times infinity. No probability above 1e-34 (float32) moves.
    """
    bandit = learner.bandit
    log_old, log_policy = bandit.log_policy(behaviour), bandit.log_policy(theta)
    most = _LARGEST * math.log(jnp.finfo(log_policy.dtype).max)
    if weighs_tokens(learner):
        apart = bandit.log_token_policy(theta) - bandit.log_token_policy(behaviour)  # type: ignore[attr-defined]
    else:
        apart = log_policy - log_old
    policy = jnp.exp(jnp.maximum(log_old, log_policy - most))
    return policy, Shift(log_old, log_policy, jnp.exp(jnp.minimum(apart, most)))


def weighs_tokens(learner: Learner) -> bool:
    """Whether the arms are sequences and the estimator looks at their tokens."""
    return hasattr(learner.bandit, "log_token_policy") and hasattr(learner.estimator, "token_weights")


def weighs_groups(learner: Learner) -> bool:
    """Whether the actions of a group depend on each other beyond their advantages."""
    return hasattr(learner.estimator, "of_group")


def counted(learner: Learner, shift: Shift, advantage: Array, share: Array | float) -> Array:
    """Coefficient of grad log pi of every action of one group, of the shape of `advantage`, or [L, ...] of tokens.

    shift: at these actions. share: of each action in its group, see `GroupEstimator`.
    """
    estimator: Any = learner.estimator
    if weighs_groups(learner):
        shape = jnp.broadcast_shapes(advantage.shape, shift.ratio.shape)
        parts = (shift.log_policy, shift.log_old, advantage, jnp.asarray(share, advantage.dtype))
        return group_rule(estimator)(*(jnp.broadcast_to(part, shape).reshape(-1) for part in parts)).reshape(shape)
    if weighs_tokens(learner):
        return advantage * estimator.token_weights(shift.ratio, advantage)
    return advantage * estimator.weight(shift.ratio, advantage)
