"""Sampled groups: the update as a trainer makes it, one seed at a time."""

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo import (
    Gradient,
    GradientFn,
    Learner,
    counted,
    drawn_advantages,
    policy_gradient,
    shift_of,
)
from bandit_lab.simulation.draw import Group, draw_group, draw_non_silent_group


def draw_batch(learner: Learner, key: Array, policy: Array) -> Group:
    """The groups of one step, every part with a leading axis [prompts]; policy [X, K] acts. The key is consumed."""
    draw = draw_non_silent_group if learner.advantage.drops_silent else draw_group
    keys = jax.random.split(key, learner.prompts)
    return jax.vmap(lambda key: draw(learner.bandit, key, policy, learner.group_size))(keys)


def sampled(learner: Learner) -> GradientFn:
    """Sampled dynamics: `(key, kl_weight, theta, behaviour) -> Gradient`, averaged over `prompts` groups.

    Per group: a context (uniform), G actions from the behaviour policy, their rewards, advantages and weights, and
    signal[x, k] = (1/G) sum_i 1[context = x, a_i = k] A_i w_i; other estimators: see `counted`. `silent` is the share
    of groups whose rewards are all equal; where those are dropped, the chance of one before it is. The key is consumed.
    """
    bandit, size = learner.bandit, learner.group_size
    drops_silent = learner.advantage.drops_silent

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, shift = shift_of(learner, theta, behaviour)
        contexts, num_arms = policy.shape

        def add_up(context: Array, arms: Array, rewards: Array, advantage: Array) -> tuple[Array, Array, Array]:
            weighted = counted(learner, shift.at(context, arms), advantage, 1 / size)
            cells = (context * num_arms + arms)[:, None] == jnp.arange(contexts * num_arms, dtype=jnp.int32)
            signal = jnp.sum(jnp.where(cells, weighted[..., None], 0), axis=-2) / size
            frequency = jnp.sum(cells, axis=0) / size
            shape = (contexts, num_arms)
            silent = jnp.all(rewards == rewards[0])
            return signal.reshape(*signal.shape[:-1], *shape), frequency.reshape(shape), silent

        groups = draw_batch(learner, key, policy)
        signal, frequency, silent = jax.vmap(add_up)(*groups, drawn_advantages(learner.advantage, groups.rewards))
        ascent = policy_gradient(
            learner, kl_weight, theta, behaviour, jnp.mean(signal, 0), jnp.mean(frequency, 0, dtype=theta.dtype)
        )
        share = jnp.mean(silent, dtype=theta.dtype)
        if drops_silent and bandit.exact_law:
            value_law = jnp.einsum("xk,xku->xu", policy, bandit.law.probabilities)
            share = jnp.mean(jnp.sum(value_law**size, axis=-1))
        return Gradient(ascent, share)

    return gradient
