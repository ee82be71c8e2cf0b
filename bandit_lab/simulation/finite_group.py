"""Finite groups, exactly: the expected gradient at this G, and its covariance, by summation over what they look like.

The G actions of a group are exchangeable, so the mean of (1/G) sum_i A_i w_i grad log pi(a_i) is that of one *tagged*
action. Its advantage depends on its own reward and on a multinomial count: how often each of the U reward values
occurs among the other G - 1 actions. For binary rewards that is a sum of G terms. Nothing is assumed of the advantage:
the table below calls its definition on the counts of every possible group.

Where silent groups are dropped, the sum runs over the other groups alone and is divided by their probability. That is a
sum of positive terms too, so that nothing is lost close to a vertex, where it is tiny.

Where an advantage sees the whole batch, the sum also runs over what the other groups can look like. The P - 1 other
groups of a step are independent and alike: each belongs to a context drawn uniformly, and shows each reward value so
often as a multinomial of that context's law. Their order does not matter. So a batch is a count of the
W = C(G + U - 1, G) kinds of groups, again a multinomial, with the mean chances of the contexts.

`group_moments` is the mean and the covariance, by summation over pairs of actions. The estimate of one group is
g = (1/G) sum_i f_i S_i. S_i is the score of action i, f_i = A_i w_i (less the sampled KL term, if it is sampled). So

    E[g] = E[f_1 S_1],    E[g g^T] = E[f_1^2 S_1 S_1^T]/G + (1 - 1/G) E[f_1 S_1 (f_2 S_2)^T],

where f_1, f_2 depend on the rewards u_1, u_2 of two *tagged* actions and on how often each reward value occurs among
the other G - 2. Given these three the two actions are independent. The exact KL term is no random variable: it moves
the mean and nothing else. P prompts average P independent groups. Derived here.

An arm is never drawn if its probability is below the smallest normal number of its type: it adds nothing. The others
enter as root of probability times f_i, since f_i^2 alone may be above the largest number.
"""

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._numerics import log_of_powers
from bandit_lab._types import Array
from bandit_lab.grpo import (
    KL,
    Advantage,
    Gradient,
    GradientFn,
    Learner,
    advantages,
    batch_advantages,
    counted,
    policy_gradient,
    sees_batch,
    shift_of,
    weighs_groups,
    weighs_tokens,
)
from bandit_lab.simulation.programs import Kept

MAX_COMPOSITIONS = 20_000
MAX_TABLE = 50_000_000


class _RestOfBatch(NamedTuple):
    """kinds: [W, U] counts of a group. log_orders: [W]. batches: [B, W] counts of kinds. log_ways: [B].

    groups: [B, P - 1, U] counts of all groups of each batch.
    """

    kinds: np.ndarray
    log_orders: np.ndarray
    batches: np.ndarray
    log_ways: np.ndarray
    groups: np.ndarray

    def chances(self, value_law: Array) -> Array:
        """[B] of each batch, where a group of context x shows the values with the law `value_law` [X, U]."""
        dtype = value_law.dtype
        log_kinds = self.log_orders.astype(dtype) + log_of_powers(value_law[:, None, :], self.kinds)
        kinds = jnp.mean(jnp.exp(log_kinds), axis=0)
        return jnp.exp(self.log_ways.astype(dtype) + log_of_powers(kinds, self.batches))


def _see_others(learner: Learner) -> bool:
    """Whether an action's advantage depends on groups besides its own."""
    return sees_batch(learner.advantage) and learner.prompts > 1


def _ways_of_others(learner: Learner) -> int:
    """B, the number of batches of other groups; 1 where they do not matter."""
    if not _see_others(learner):
        return 1
    values = learner.bandit.law.values.shape[0]
    kinds = comb(learner.group_size + values - 1, values - 1)
    return comb(learner.prompts - 1 + kinds - 1, kinds - 1)


def compositions(total: int, parts: int) -> np.ndarray:
    """All ways to write `total` as an ordered sum of `parts` counts >= 0: int array [M, parts], lexicographic."""
    places = list(combinations(range(total + parts - 1), parts - 1))
    bars = np.array(places, dtype=np.int64).reshape(len(places), parts - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), total + parts - 1)])
    return np.diff(edges, axis=1) - 1


def check_one_action_at_a_time(learner: Learner, what: str, batches: bool = False) -> None:
    """Raise ValueError where an action's gradient depends on more of the others than their rewards in its own group, or
    (`batches`) in its batch."""

    def need(holds: bool, name: str, expected: str, got: object) -> None:
        _checks.require(holds, name, f"{expected} for {what}", got)

    kinds = learner.bandit, learner.estimator, learner.advantage
    bandit, estimator, advantage = (type(part).__name__ for part in kinds)
    need(learner.bandit.exact_law, "dynamics", "a bandit with finitely many reward values", bandit)
    need(not weighs_groups(learner), "estimator", "one that weighs each action by itself", estimator)
    one_group = not _see_others(learner) or (batches and not learner.advantage.drops_silent)
    need(one_group, "prompts", f"1, as the advantage {advantage} sees the whole batch,", learner.prompts)


def check_finite_group(learner: Learner) -> None:
    """Raise ValueError where a group of the learner can look too many ways, or more than rewards has to be counted."""
    law, size = learner.bandit.law, learner.group_size
    check_one_action_at_a_time(learner, "finite_group", batches=True)
    num_values = law.values.shape[0]
    ways = comb(size + num_values - 2, num_values - 1) * _ways_of_others(learner)
    groups = learner.prompts if _see_others(learner) else 1
    _checks.require(
        ways <= MAX_COMPOSITIONS and ways * num_values * groups <= MAX_TABLE,
        "group_size",
        f"at most {MAX_COMPOSITIONS} ways to share out a group's rewards for dynamics=finite_group "
        "(fewer reward values or a smaller group; dynamics=sampled has no such limit)",
        f"{ways} ways at group_size={size} with {num_values} reward values"
        + (f" and {learner.prompts} prompts" if _see_others(learner) else ""),
    )


@Kept
def counted_advantages(advantage: Advantage, size: int) -> Callable[[Array, np.ndarray], Array]:
    """(reward values [U], counts [M, U] of groups of `size`) -> the advantage of every value in each [M, U]."""
    return jax.jit(
        lambda values, n: advantages(advantage, values[:, None], jnp.asarray(n.T, values.dtype) / size, size).T
    )


@Kept
def _beside_others(advantage: Advantage, size: int) -> Callable[[Array, np.ndarray, np.ndarray], Array]:
    """(reward values [U], groups [M, U], the others of a batch [B, P - 1, U]) -> advantage of every value [M, B, U]."""

    def one(values: Array, group: Array, rest: Array) -> Array:
        shares = jnp.concatenate([group[None], rest]).astype(values.dtype).T / size
        return batch_advantages(advantage, values[:, None], shares, size)[:, 0]

    return jax.jit(jax.vmap(jax.vmap(one, (None, None, 0)), (None, 0, None)))


def _rest_of_batch(learner: Learner) -> _RestOfBatch:
    """Everything that the other groups of a batch can look like."""
    kinds = compositions(learner.group_size, learner.bandit.law.values.shape[0])
    batches = compositions(learner.prompts - 1, len(kinds))
    groups = kinds[np.array([np.repeat(np.arange(len(kinds)), row) for row in batches])]
    return _RestOfBatch(kinds, log_orders(kinds), batches, log_orders(batches), groups)


def log_orders(counts: np.ndarray) -> np.ndarray:
    """log of the number of orders in which counted things can stand, [M, U] -> [M]."""
    from scipy.special import gammaln  # 12 MB that sampled runs do without

    return gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)


def finite_group(learner: Learner) -> GradientFn:
    """The exact mean dynamics at the learner's group size: `(key, kl_weight, theta, behaviour) -> Gradient`.

    `silent` is the exact probability that a drawn group is silent, dropped or not. Prompts matter only where an
    advantage sees the whole batch: else they average independent groups.

    Raises:
      ValueError: the bandit's rewards are not finitely many values; a group can look too many ways (more than
        MAX_COMPOSITIONS counts of the other G - 1 rewards); an action depends on more than those.
    """
    check_finite_group(learner)
    bandit, size = learner.bandit, learner.group_size
    law, num_values = bandit.law, bandit.law.values.shape[0]
    others = compositions(size - 1, num_values)
    log_ways = log_orders(others)
    rest = _rest_of_batch(learner) if _see_others(learner) else None
    columns = []
    for u, tagged in enumerate(np.eye(num_values, dtype=int)):
        if rest is None:
            advantage = counted_advantages(learner.advantage, size)(law.values, others + tagged)  # [M, U]
        else:
            advantage = _beside_others(learner.advantage, size)(law.values, others + tagged, rest.groups)  # [M, B, U]
        columns.append(advantage[..., u].ravel())
    table = jnp.stack(columns, axis=-1)  # [M, U] or [M B, U]
    counts = np.ones(table.shape, bool)
    if learner.advantage.drops_silent:
        counts = others < size - 1

    def gradient(key: Array, kl_weight: Array, theta: Array, behaviour: Array) -> Gradient:
        policy, shift = shift_of(learner, theta, behaviour)
        value_law = jnp.einsum("xk,xku->xu", policy, law.probabilities)
        log_others = log_of_powers(value_law[:, None, :], others)
        chance = jnp.exp(log_ways.astype(theta.dtype) + log_others)  # [X, M]
        if rest is not None:
            chance = (chance[..., None] * rest.chances(value_law)).reshape(len(chance), -1)
        weighted = jnp.where(counts, counted(learner, shift.spread(2), table, 1.0), 0)  # [X, K, M, U]
        frequency = policy / policy.shape[0]
        signal = frequency * jnp.einsum("xku,xm,...xkmu->...xk", law.probabilities, chance, weighted)
        if learner.advantage.drops_silent:
            not_silent = chance @ counts.astype(chance.dtype)  # [X, U]
            alive = jnp.mean(jnp.sum(value_law * not_silent, axis=-1))
            alive = jnp.where(alive > 0, alive, 1)
            frequency = frequency * jnp.einsum("xku,xu->xk", law.probabilities, not_silent) / alive
            signal = signal / alive
        log_frequency = None if learner.advantage.drops_silent else shift.log_frequency
        ascent = policy_gradient(learner, kl_weight, theta, behaviour, signal, frequency, log_frequency)
        return Gradient(ascent, jnp.mean(jnp.sum(value_law**size, axis=-1)))

    return gradient


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
