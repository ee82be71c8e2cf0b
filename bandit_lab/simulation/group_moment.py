"""Finite groups, exactly: mean and covariance of the sampled gradient at this G, by summation over pairs of actions.

The estimate of one group is g = (1/G) sum_i f_i S_i. S_i is the score of action i, f_i = A_i w_i (less the sampled KL
term, if it is sampled). The G actions are exchangeable, so that

    E[g] = E[f_1 S_1],    E[g g^T] = E[f_1^2 S_1 S_1^T]/G + (1 - 1/G) E[f_1 S_1 (f_2 S_2)^T],

where f_1, f_2 depend on the rewards u_1, u_2 of two *tagged* actions and on a multinomial count: how often each
reward value occurs among the other G - 2. Given these three the two actions are independent. The exact KL term is no
random variable: it moves the mean and nothing else. P prompts average P independent groups. Derived here.

An arm is never drawn if its probability is below the smallest normal number of its type: it adds nothing. The others
enter as root of probability times f_i, since f_i^2 alone may be above the largest number.
"""

from collections.abc import Callable
from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._numerics import log_of_powers
from bandit_lab._types import Array
from bandit_lab.grpo import KL, Learner, counted, policy_gradient, shift_of, weighs_tokens
from bandit_lab.simulation.finite_group import (
    MAX_COMPOSITIONS,
    MAX_TABLE,
    check_one_action_at_a_time,
    compositions,
    counted_advantages,
    log_orders,
)


class GradientMoments(NamedTuple):
    """Exact moments of one step's gradient estimate: mean [D] and covariance [D, D] over groups (and prompts)."""

    mean: Array
    covariance: Array

    @property
    def square(self) -> Array:
        """E[g^2] of every parameter [D]."""
        return self.mean**2 + jnp.diagonal(self.covariance)


MomentFn = Callable[[Array, Array, Array], GradientMoments]
"""(kl_weight, theta [D], behaviour theta [D]) -> GradientMoments."""


def group_moments(learner: Learner) -> MomentFn:
    """Exact mean and covariance of what `sampled` draws: `(kl_weight, theta, behaviour) -> GradientMoments`.

    Raises:
      ValueError: the bandit's rewards are not finitely many values; a group can look too many ways (more than
        MAX_COMPOSITIONS counts of the other G - 2 rewards).
    """
    bandit, size, kl = learner.bandit, learner.group_size, learner.kl_estimator
    law = bandit.law
    what = "exact gradient moments"
    check_one_action_at_a_time(learner, what)
    _checks.require(not weighs_tokens(learner), "estimator", f"one that weighs whole actions for {what}", "tokens")
    _checks.require(size >= 2, "group_size", "at least 2 for pairs of actions", size)
    num_values = law.values.shape[0]
    ways = comb(size + num_values - 3, num_values - 1)
    _checks.require(
        ways <= MAX_COMPOSITIONS and ways * num_values**2 <= MAX_TABLE,
        "group_size",
        f"at most {MAX_COMPOSITIONS} ways to share out a group's rewards for exact gradient moments",
        f"{ways} ways at group_size={size} with {num_values} reward values",
    )
    others = compositions(size - 2, num_values)  # [M, U]
    log_ways = log_orders(others)
    tagged, columns, counts = np.eye(num_values, dtype=int), [], np.ones((ways, num_values, num_values), bool)
    for u, v in np.ndindex(num_values, num_values):
        whole = others + tagged[u] + tagged[v]
        columns.append(counted_advantages(learner.advantage, size)(law.values, whole)[:, u])
        if learner.advantage.drops_silent:
            counts[:, u, v] = whole.max(axis=1) < size
    table = jnp.stack(columns, axis=-1).reshape(counts.shape)  # [M, U, U] of the first of the two tagged actions

    def moments(kl_weight: Array, theta: Array, behaviour: Array) -> GradientMoments:
        policy, shift = shift_of(learner, theta, behaviour)
        drawn_at_all = policy >= jnp.finfo(policy.dtype).tiny
        policy = jnp.where(drawn_at_all, policy, 0)
        joint = policy[..., None] * law.probabilities  # [X, K, U]
        log_others = log_of_powers(jnp.sum(joint, axis=1)[:, None, :], others)
        chance = jnp.exp(log_ways.astype(theta.dtype) + log_others)  # [X, M]
        at = behaviour if learner.estimator.at_snapshot else theta
        scores = jax.jacfwd(bandit.log_policy)(at)  # [X, K, D]
        root = jnp.sqrt(policy)
        factor = root[..., None, None, None] * counted(learner, shift.spread(3), table, 1.0)  # [X, K, M, U, U]
        if kl.sampled:
            held = _root_times_slope(kl, root, bandit.log_policy(at), bandit.reference_log_policy)
            factor = factor - (kl_weight * held)[..., None, None, None]
        factor = jnp.where(counts & drawn_at_all[..., None, None, None], factor, 0)
        alive = jnp.mean(jnp.einsum("xku,xlv,xm,muv->x", joint, joint, chance, counts.astype(theta.dtype)))
        chance = chance / (jnp.where(alive > 0, alive, 1) * policy.shape[0])
        rewards, weighted = law.probabilities, root[..., None] * law.probabilities
        first = jnp.einsum("xku,xkmuv,xkd->xmuvd", weighted, factor, scores)
        value_law = jnp.sum(joint, axis=1)
        drawn = jnp.einsum("xm,xv,xmuvd->d", chance, value_law, first)
        alone = jnp.einsum("xm,xv,xku,xkmuv,xkd,xke->de", chance, value_law, rewards, factor**2, scores, scores)
        pair = jnp.einsum("xm,xmuvd,xmvue->de", chance, first, first)
        covariance = (alone + (size - 1) * pair) / size - jnp.outer(drawn, drawn)
        nothing = jnp.zeros_like(policy)
        mean = drawn + policy_gradient(learner, kl_weight, theta, behaviour, nothing, nothing)
        return GradientMoments(mean, covariance / learner.prompts)

    return moments


def _root_times_slope(kl: KL, root: Array, log_policy: Array, log_reference: Array) -> Array:
    """Root of each arm's probability [X, K] times the KL term's slope, whose square may be no number by itself."""
    if kl.expected is not None:
        return kl.expected(root, jnp.log(jnp.where(root > 0, root, 1)), log_policy, log_reference)
    return root * kl.slope(log_policy, log_reference)
