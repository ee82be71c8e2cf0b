"""The distance of the current policy from the one that acted, and the weights of advantages that follow."""

import math
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.correction import NoCorrection
from bandit_lab.grpo.sampler import OwnLaw, Sampler
from bandit_lab.grpo.update import Learner

_LARGEST = 0.9
"""Logarithm of the largest ratio, over that of its type's largest number."""


class Shift(NamedTuple):
    """Behaviour and current policy at the same actions.

    log_old, log_policy: [X, K]. ratio: [X, K] current over behaviour policy, or [L, X, K] of each token where the
    estimator weighs tokens. log_drawn: [X, K] of the sampler's law, mismatch: logarithm of the behaviour policy's
    probability over the sampler's, [X, K] or [L, X, K] as `ratio`; None where the behaviour policy itself draws.
    """

    log_old: Array
    log_policy: Array
    ratio: Array
    log_drawn: Array | None = None
    mismatch: Array | None = None

    @property
    def log_frequency(self) -> Array:
        """[X, K] logarithm of the share of all actions that falls on each arm in the mean: contexts are uniform."""
        drawn = self.log_old if self.log_drawn is None else self.log_drawn
        return drawn - math.log(drawn.shape[0])

    def at(self, context: Array, arms: Array) -> "Shift":
        """The same at some arms [G] of a context: [G] each, or [L, G]."""
        return jax.tree.map(lambda part: part[..., context, arms], self)

    def spread(self, axes: int) -> "Shift":
        """The same with so many axes of length 1 behind the others."""
        behind = tuple(range(-axes, 0))
        return jax.tree.map(lambda part: jnp.expand_dims(part, behind), self)


def shift_of(learner: Learner, theta: Array, behaviour: Array) -> tuple[Array, Shift]:
    """(the law that draws [X, K], `Shift` from the behaviour policy to the policy at theta).

    A ratio that its type cannot hold is held at a largest one, and the probability beside it is raised to pi / ratio.
    So their product stays pi, where it would be 0 times infinity. No probability above 1e-34 (float32) moves.
    """
    bandit = learner.bandit
    log_old, log_policy = bandit.log_policy(behaviour), bandit.log_policy(theta)
    most = _LARGEST * math.log(jnp.finfo(log_policy.dtype).max)
    if weighs_tokens(learner):
        apart = bandit.log_token_policy(theta) - bandit.log_token_policy(behaviour)
    else:
        apart = log_policy - log_old
    ratio = jnp.exp(jnp.minimum(apart, most))
    if not resampled(learner):
        return jnp.exp(jnp.maximum(log_old, log_policy - most)), Shift(log_old, log_policy, ratio)
    if bandit.log_token_policy is not None:
        tokens = bandit.log_token_policy(behaviour)
        laws = _token_laws(learner.sampler, tokens)
        log_drawn = jnp.sum(laws, axis=0)
        mismatch = tokens - laws if weighs_tokens(learner) else log_old - log_drawn
    else:
        log_drawn = learner.sampler.log_law(log_old)
        mismatch = log_old - log_drawn
    return jnp.exp(log_drawn), Shift(log_old, log_policy, ratio, log_drawn, mismatch)


def _token_laws(sampler: Sampler, tokens: Array) -> Array:
    """Log-probability of every token [L, X, K] given those before it, where a sampler draws token by token.

    tokens: [L, X, K] of the policy, sequences in lexicographic order. The sampler sees a row for every prompt and
    beginning of a sequence, all at once.
    """
    length, contexts, arms = tokens.shape
    size = round(arms ** (1 / length))
    own = [part.reshape(contexts * size**place, size, -1)[..., 0] for place, part in enumerate(tokens)]
    laws = jnp.split(sampler.log_law(jnp.concatenate(own)), list(accumulate(len(rows) for rows in own))[:-1])
    return jnp.stack([jnp.repeat(law.reshape(contexts, -1), arms // (law.size // contexts), axis=1) for law in laws])


def resampled(learner: Learner) -> bool:
    """True if another law draws than the policy that acts."""
    return not isinstance(learner.sampler, OwnLaw)


def weighs_tokens(learner: Learner) -> bool:
    """True if the arms are sequences and the estimator looks at their tokens."""
    return learner.bandit.log_token_policy is not None and learner.estimator.token_weights is not None


def weighs_groups(learner: Learner) -> bool:
    """True if the actions of a group depend on each other beyond their advantages."""
    return learner.estimator.of_group is not None


def counted(learner: Learner, shift: Shift, advantage: Array, share: Array | float) -> Array:
    """Coefficient of grad log pi of every action of one group, of the shape of `advantage`, or [L, ...] of tokens.

    shift: at these actions. share: of each action in its group, see `Estimator`.
    """
    estimator: Any = learner.estimator
    if weighs_groups(learner):
        shape = jnp.broadcast_shapes(advantage.shape, shift.ratio.shape)
        parts = (shift.log_policy, shift.log_old, advantage, jnp.asarray(share, advantage.dtype))
        weights = estimator.of_group(*(jnp.broadcast_to(part, shape).reshape(-1) for part in parts)).reshape(shape)
    elif weighs_tokens(learner):
        weights = advantage * estimator.token_weights(shift.ratio, advantage)
    else:
        weights = advantage * estimator.weight(shift.ratio, advantage)
    if shift.mismatch is None or isinstance(learner.correction, NoCorrection):
        return weights
    most = _LARGEST * math.log(jnp.finfo(weights.dtype).max)
    return weights * learner.correction.weight(jnp.exp(jnp.minimum(shift.mismatch, most)))
