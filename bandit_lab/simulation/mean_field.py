"""Infinite groups: the exact expected gradient at G = infinity, no sampling."""

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo import (
    Gradient,
    GradientFn,
    Learner,
    Shift,
    batch_advantages,
    counted,
    policy_gradient,
    shift_of,
    weighs_groups,
)
from bandit_lab.simulation.normal_law import cuts, nodes_of


def mean_field(learner: Learner) -> GradientFn:
    """The mean-field dynamics of a learner: `(key, kl_weight, theta, behaviour) -> Gradient`, key ignored.

    signal[x, k] = (1/X) pi_old(k|x) sum_u P(u|x,k) A_u(x) w(ratio[x,k], A_u(x)) with the advantage A_u(x) of reward
    value u in an infinite group of context x; other estimators: see `counted`. Exact for laws with finitely many
    values, and to rounding for normal ones (`normal_law`); else as good as their nodes.
    """

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, shift = shift_of(learner, theta, behaviour)
        chances, weighted = _weighed_answers(learner, policy, shift)
        frequency = policy / policy.shape[0]
        signal = frequency * jnp.sum(chances * weighted, axis=-1)
        ascent = policy_gradient(learner, kl_weight, theta, behaviour, signal, frequency, shift.log_frequency)
        return Gradient(ascent, jnp.zeros((), theta.dtype))

    return gradient


def _weighed_answers(learner: Learner, policy: Array, shift: Shift) -> tuple[Array, Array]:
    """(probability of every reward [X, K or 1, U] given its arm, what its advantage becomes [.., X, K, U]).

    In infinite groups that the law `policy` [X, K] draws. shift: see `counted`, which is applied to the advantages.
    """
    law = learner.bandit.law
    if cuts(learner):
        chances, advantage = nodes_of(learner, policy)
    else:
        chances = law.probabilities
        value_law = jnp.einsum("xk,xku->xu", policy, chances)
        advantage = batch_advantages(learner.advantage, law.values[:, None], value_law.T, None).T[:, None, :]
    if weighs_groups(learner):
        share = policy[..., None] * chances
        return chances, jax.vmap(lambda *parts: counted(learner, *parts))(shift.spread(1), advantage, share)
    return chances, counted(learner, shift.spread(1), advantage, 1.0)
