"""Infinite groups: the exact expected gradient at G = infinity, no sampling."""

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo import Gradient, GradientFn, Learner, importance_ratio, policy_gradient


def mean_field(learner: Learner) -> GradientFn:
    """The mean-field dynamics of a learner: `(key, kl_weight, theta, behaviour) -> Gradient`, key ignored.

    signal[x, k] = (1/X) pi_old(k|x) sum_u P(u|x,k) A_u(x) w(ratio[x,k], A_u(x)) with the advantage A_u(x) of reward
    value u in an infinite group of context x. Exact for laws with finitely many values; else as good as their nodes.
    """
    bandit = learner.bandit
    law = bandit.law

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, ratio = importance_ratio(bandit, theta, behaviour)
        value_law = jnp.einsum("xk,xku->xu", policy, law.probabilities)
        advantage = jax.vmap(learner.advantage.population, (None, 0))(law.values, value_law)[:, None, :]
        counted = advantage * learner.estimator.weight(ratio[..., None], advantage)
        frequency = policy / policy.shape[0]
        signal = frequency * jnp.sum(law.probabilities * counted, axis=-1)
        ascent = policy_gradient(learner, kl_weight, theta, behaviour, signal, frequency)
        return Gradient(ascent, jnp.zeros((), theta.dtype))

    return gradient
