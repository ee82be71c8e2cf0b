"""Sampled groups: the update as a trainer makes it, one seed at a time."""

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo import Gradient, GradientFn, Learner, importance_ratio, policy_gradient


def draw_arms(key: Array, policy: Array, size: int) -> Array:
    """`size` arms [G] i.i.d. from `policy` [K] by inverting its cumulative distribution. `key` is consumed."""
    upper = jnp.cumsum(policy)[:-1]
    uniform = jax.random.uniform(key, (size,), policy.dtype)
    return jnp.sum(uniform[:, None] >= upper, axis=-1)


def sampled(learner: Learner) -> GradientFn:
    """Sampled dynamics: `(key, kl_weight, theta, behaviour) -> Gradient`, averaged over `prompts` groups.

    Per group: a context (uniform), G actions from the behaviour policy, their rewards, advantages and weights, and
    signal[x, k] = (1/G) sum_i 1[context = x, a_i = k] A_i w_i. `silent` is the share of groups whose rewards are all
    equal. The key is consumed.
    """
    bandit, size = learner.bandit, learner.group_size

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, ratio = importance_ratio(bandit, theta, behaviour)
        contexts, num_arms = policy.shape

        def group(key: Array) -> tuple[Array, Array, Array]:
            context_key, arm_key, reward_key = jax.random.split(key, 3)
            context = jax.random.randint(context_key, (), 0, contexts) if contexts > 1 else jnp.int32(0)
            arms = draw_arms(arm_key, policy[context], size)
            rewards = bandit.sample_rewards(reward_key, context, arms)
            advantage = learner.advantage(rewards)
            counted = advantage * learner.estimator.weight(ratio[context, arms], advantage)
            cells = (context * num_arms + arms)[:, None] == jnp.arange(contexts * num_arms)
            signal = jnp.sum(jnp.where(cells, counted[:, None], 0), axis=0) / size
            frequency = jnp.sum(cells, axis=0) / size
            shape = (contexts, num_arms)
            return signal.reshape(shape), frequency.reshape(shape), jnp.all(rewards == rewards[0])

        signal, frequency, silent = jax.vmap(group)(jax.random.split(key, learner.prompts))
        ascent = policy_gradient(
            learner, kl_weight, theta, behaviour, jnp.mean(signal, 0), jnp.mean(frequency, 0, dtype=theta.dtype)
        )
        return Gradient(ascent, jnp.mean(silent, dtype=theta.dtype))

    return gradient
