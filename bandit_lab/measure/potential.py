"""The potential whose gradient is the on-policy drift, where there is one.

With rewards in two values the reward part of the on-policy drift of a context is h(q) grad q, q being the probability
of the higher value and h(q) the gap between its mean advantage and that of the lower one. Its potential is the
integral of h; for an infinite group and A = (r - J)/sigma it is 2 arcsin(sqrt(J)). Advantages that are linear in the
rewards have the potential (factor times) J for any law. Otherwise (a group std over three or more reward values) the
drift is not a gradient. Dropping silent groups divides h by the chance of a group that is not silent, and couples
contexts, and the actions that the sampled KL sees, through it: then there is a potential for one context and exact KL.
An advantage that sees the batch couples contexts too. A KL estimator brings its divergence, the entropy bonus is one.
"""

from collections.abc import Callable
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Learner, advantages, drawn_advantages, sees_batch, weighs_groups, weighs_tokens

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def advantage_gap(learner: Learner, dynamics: str) -> Callable[[Array], Array]:
    """h(q): mean advantage of the higher of two reward values minus that of the lower, if the higher has chance q."""
    values, size = learner.bandit.law.values, learner.group_size
    if dynamics == "mean_field":

        def gap(chance: Array) -> Array:
            low, high = advantages(learner.advantage, values, jnp.stack([1 - chance, chance]), None)
            return high - low

        return gap
    wins = np.arange(size)  # among the other G - 1 actions
    ways = np.array([float(comb(size - 1, int(m))) for m in wins])

    def tagged(value: int) -> Array:
        """Advantage [M] of an action that got this one of the two values, beside so many others that won."""
        won = wins + value
        shares = jnp.asarray(np.stack([size - won, won]) / size, values.dtype)
        return advantages(learner.advantage, values[:, None], shares, size)[value]

    high, low = tagged(1), tagged(0)
    if not learner.advantage.drops_silent:
        return lambda chance: jnp.sum(ways * chance**wins * (1 - chance) ** (size - 1 - wins) * (high - low))
    high, low = jnp.where(wins == size - 1, 0, high), jnp.where(wins == 0, 0, low)

    def gap_of_non_silent(chance: Array) -> Array:
        weight = ways * chance**wins * (1 - chance) ** (size - 1 - wins)
        return jnp.sum(weight * (high - low)) / (1 - chance**size - (1 - chance) ** size)

    return gap_of_non_silent


def potential(learner: Learner, dynamics: str, theta: np.ndarray | Array) -> Callable[[Array, Array], Array] | None:
    """The potential near theta [D] as a function of (parameters [D], kl_weight), or None where there is none.

    Its constant is chosen so that the reward part vanishes at theta.
    """
    bandit = learner.bandit
    probabilities = bandit.law.probabilities
    binary = probabilities.shape[-1] == 2
    weight, kl, contexts = _weight_on_policy(learner), learner.kl_estimator, probabilities.shape[0]
    if not (binary or learner.advantage.linear) or weight is None:
        return None
    drops = learner.advantage.drops_silent and dynamics != "mean_field"
    if drops and (contexts > 1 or kl.sampled or not binary):
        return None
    if sees_batch(learner.advantage) and contexts > 1:
        return None

    def win_chance(x: Array) -> Array:
        return jnp.sum(jnp.exp(bandit.log_policy(x)) * probabilities[..., -1], axis=-1)

    if learner.advantage.linear:
        unit = jnp.zeros(learner.group_size).at[0].set(1.0)
        factor = drawn_advantages(learner.advantage, unit[None])[0, 0] if dynamics != "mean_field" else 1.0

        def reward_part(x: Array) -> Array:
            return factor * jnp.mean(jnp.sum(jnp.exp(bandit.log_policy(x)) * bandit.law.means, axis=-1))

    else:
        gap, start = advantage_gap(learner, dynamics), win_chance(jnp.asarray(theta))

        def integral(chance: Array, origin: Array) -> Array:
            points = origin + (chance - origin) * 0.5 * (1 + _NODES)
            return (chance - origin) * 0.5 * jnp.sum(_WEIGHTS * jax.vmap(gap)(points))

        def reward_part(x: Array) -> Array:
            return jnp.mean(jax.vmap(integral)(win_chance(x), start))

    def value(x: Array, kl_weight: Array) -> Array:
        log_policy = bandit.log_policy(x)
        divergence = jnp.mean(kl.divergence(log_policy, bandit.reference_log_policy))
        entropy = -jnp.mean(jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1))
        return weight * reward_part(x) - kl_weight * divergence + learner.entropy_weight * entropy

    return value


def _weight_on_policy(learner: Learner) -> float | None:
    """What the estimator multiplies every action's gradient by where the policies agree; None if not one number."""
    if weighs_groups(learner):
        return None
    estimator = learner.estimator
    with jax.ensure_compile_time_eval():
        signs = jnp.array([1.0, -1.0])
        if weighs_tokens(learner):
            bandit: Any = learner.bandit
            tokens = jax.eval_shape(bandit.log_token_policy, bandit.initial_parameters).shape[0]
            weights = estimator.token_weights(jnp.ones((tokens, 2)), signs)  # type: ignore[attr-defined]
        else:
            weights = estimator.weight(jnp.ones(2), signs)
        first = float(weights.ravel()[0])
        return first if bool(jnp.all(weights == first)) else None
