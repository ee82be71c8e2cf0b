"""K arms in every lane: the ascent direction, sampled or at G = infinity.

The formulas are those of `grpo.policy_gradient`; a sum over the actions of a group is written as a sum over cells. For
the softmax policy grad log pi(k) = e_k - pi, and log pi may be replaced by the logits: a constant changes no term.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._numerics import add_up, exp, leading_max, leading_sum, leading_sum_of, log, materialize
from bandit_lab._types import Array
from bandit_lab.grpo import Exact, weighs_groups
from bandit_lab.simulation.fast.advantages import of_group, of_infinite_group, of_law, scale_of, scales
from bandit_lab.simulation.fast.multinomial import counts, draws_and_dither, thresholds, words_for_counting
from bandit_lab.simulation.fast.non_silent import (
    chance_of_silence,
    non_silent_counts,
    value_law,
    words_for_non_silent,
)
from bandit_lab.simulation.fast.normal_rewards import with_rewards, words_for_rewards
from bandit_lab.simulation.fast.penalty import penalty
from bandit_lab.simulation.fast.program import Job
from bandit_lab.simulation.fast.random_bits import GENERATORS, as_float

Drawn = tuple[Job, list[Array]]
"""The job, with the rewards of the group where those are normal, and counts [K, L] of every column."""
Draw = Callable[[int], Drawn]
_IMPOSSIBLE = -83.0  # a logarithm whose exponential is still a float32


class Policy(NamedTuple):
    """A softmax policy of every lane, weights / total. logits, weights: [K, L]. total: [L]. reward: [L] expected
    reported reward; NaN where the logits are not finite (our exp does not pass that on)."""

    logits: Array
    weights: Array
    total: Array
    reward: Array

    @property
    def largest_probability(self) -> Array:
        """[L] of the most likely arm, whose weight is 1."""
        return 1 / self.total

    @property
    def probabilities(self) -> Array:
        """[K, L] of every arm."""
        return self.weights / self.total

    def log_policy(self, least: float = -jnp.inf) -> Array:
        """Log-probabilities [K, L], at least `least`."""
        return jnp.maximum(self.logits - materialize(leading_max(self.logits) + log(self.total)), least)


def policy_of(job: Job, logits: Array) -> Policy:
    """The policy with these logits [K, L]."""
    highest = lax.reduce(logits, np.array(-np.inf, logits.dtype), lambda x, y: jnp.where(x > y, x, y), (0,))
    weights = materialize(exp(logits - highest))
    total = leading_sum(weights)
    reward = materialize(leading_sum_of(jnp.multiply, weights, job.tables.means) / total + 0 * logits[0])
    return Policy(logits, weights, total, reward)


def ascent(job: Job, acting: Policy, current: Policy, step: Array) -> tuple[Array, Array]:
    """(ascent direction [K, L], share of silent groups [L]) at one step.

    acting: the policy that draws. current: the policy that is trained. step: names the random words of the batch.
    """
    first = step * job.learner.prompts
    return ascent_from(job, acting, current, lambda prompt: drawn_group(job, acting, first + prompt))


def ascent_from(job: Job, acting: Policy, current: Policy, draw: Draw) -> tuple[Array, Array]:
    """`ascent` from the group that `draw` gives for every prompt."""
    estimator, infinite = job.learner.estimator, job.program.dynamics == "mean_field"
    change = change_of(job, acting, current)
    at, exact = acting if estimator.at_snapshot else current, type(job.learner.kl_estimator) is Exact
    distance = at.logits - job.tables.reference
    pull = job.lanes.kl_weight / at.total  # of the exact KL: its gradient is weights * (pull * distance - recoil)
    recoil = pull * leading_sum_of(lambda w, x, y: w * (x - y), at.weights, at.logits, job.tables.reference) / at.total
    if infinite and change is None and at is acting and exact and scales(job.learner):
        slope, offset = affine(job, acting)
        slope, offset = slope / at.total, recoil - offset / at.total
        return at.weights * (job.tables.trained * slope + offset - pull * distance), jnp.zeros_like(at.total)
    if infinite:
        signal, frequency, silent = infinite_group(job, acting, change)
    else:
        signal, frequency, silent = _batch(job, acting, draw, change)
    signal = materialize(signal) if change is not None and weighs_groups(job.learner) else signal
    if not exact:
        signal = materialize(signal - penalty(job, at, acting, frequency))
        return signal - at.weights * (leading_sum(signal) / at.total), silent
    if change is None and job.learner.advantage.centred:  # the signal adds up to 0
        return signal - at.weights * (pull * distance - recoil), silent
    score = leading_sum(signal) / at.total
    return signal - at.weights * (pull * distance + (score - recoil)), silent


class Change(NamedTuple):
    """From the policy that acted to the current one. ratio: [K, L] of their probabilities, which never vanish (see
    `_elementary.exp`), so that nothing is divided by zero."""

    acting: Policy
    current: Policy
    ratio: Array


def change_of(job: Job, acting: Policy, current: Policy) -> Change | None:
    """The change between two policies; none on policy. None where the estimator does not look at it."""
    if job.learner.estimator.ignores_ratio:
        return None
    if acting is current:
        return Change(acting, current, jnp.ones_like(acting.weights))
    return Change(acting, current, current.weights * (acting.total / current.total) / acting.weights)


def affine(job: Job, acting: Policy) -> tuple[Array, Array]:
    """(a, b) [L] of the advantage a r - b in an infinite group."""
    tables, total = job.tables, acting.total
    reported = job.program.reported_is_trained
    mean = acting.reward if reported else leading_sum_of(jnp.multiply, acting.weights, tables.trained) / total
    variance = leading_sum_of(
        lambda w, r, own: w * ((r - mean) * (r - mean) + own), acting.weights, tables.trained, tables.variances
    )
    variance = variance / total
    scale = scale_of(job.learner, variance, variance <= 0, None)
    return scale, mean * scale


def infinite_group(job: Job, acting: Policy, change: Change | None) -> tuple[Array, Array, Array]:
    """(signal, policy [K, L], silent [L]): pi_k sum_u P(u | k) A_u w(ratio_k, A_u)."""
    chances = job.tables.chances
    if scales(job.learner):
        slope, offset = (materialize(x) for x in affine(job, acting))
        advantage = of_infinite_group(job, slope, offset)
    else:
        advantage = of_law(job, value_law(job.program, acting.weights, acting.total, chances))
    share = materialize(acting.weights * (1 / acting.total))
    if job.program.columns == 1:
        value = _weighted(job, advantage, [share], change)[0]
    else:
        shares = [chances[:, c : c + 1] * share for c in range(job.program.columns)]
        weighted = _weighted(job, advantage, shares, change)
        value = add_up(*(chances[:, c : c + 1] * w for c, w in enumerate(weighted)))
    return share * value, share, jnp.zeros_like(acting.total)


def _batch(job: Job, acting: Policy, draw: Draw, change: Change | None) -> tuple[Array, Array, Array]:
    """(signal, frequency [K, L], silent [L]): the mean over the `prompts` groups of one batch."""
    prompts, groups = job.learner.prompts, []
    for prompt in range(prompts):
        group = group_signal(*draw(prompt), change)
        groups.append([materialize(x) for x in group] if prompts > 1 else group)
    signal, frequency, silent = (add_up(*part) * (1 / prompts) for part in zip(*groups, strict=True))
    if job.learner.advantage.drops_silent:
        law = value_law(job.program, acting.weights, acting.total, job.tables.chances)
        silent = chance_of_silence(law, job.learner.group_size)
    return signal, frequency, silent


def group_words(job: Job, group: Array, more: int = 0) -> Array:
    """Random words [., L] that one group of every lane is drawn with, and `more` for other use."""
    size, generator = job.learner.group_size, GENERATORS[job.program.generator]
    drops = job.learner.advantage.drops_silent
    count = words_for_non_silent(size) if drops else words_for_counting(size, generator.expensive)
    return materialize(generator.random_bits(job.lanes.keys, group, count + more))


def drawn_group(job: Job, acting: Policy, group: Array) -> Drawn:
    """One group of every lane."""
    spreads = job.program.spreads
    if not spreads:
        return job, counts_from(job, acting, group_words(job, group))
    more = words_for_rewards(acting.weights.shape[0], len(spreads), job.learner.group_size)
    words = group_words(job, group, more)
    cells = counts_from(job, acting, words[:-more])
    return with_rewards(job, cells[0], words[-more:]), cells


def counts_from(job: Job, acting: Policy, words: Array) -> list[Array]:
    """Counts [K, L] of every column in one group of every lane, as floats, drawn with these words."""
    size, dtype, reached = job.learner.group_size, acting.weights.dtype, job.tables.reached
    if job.learner.advantage.drops_silent:
        drawn = non_silent_counts(job.program, acting.weights, acting.total, job.tables.chances, reached, words, size)
    else:
        draws, dither = draws_and_dither(words, size)
        drawn = counts(thresholds(acting.weights, acting.total, reached, dither), draws, size)
    columns = job.program.columns
    return [materialize(as_float(drawn[column::columns], dtype)) for column in range(columns)]


def group_signal(job: Job, cells: list[Array], change: Change | None) -> tuple[Array, Array, Array]:
    """(signal, frequency [K, L], silent [L]) of one group from its counts [K, L] of every column.

    signal: (1/G) sum_i 1[a_i = k] A_i w_i. frequency: share of the actions that fell on each arm.
    """
    share = 1 / job.learner.group_size
    advantage, scale, silent = of_group(job, cells)
    if change is None:
        factor = share if scale is None else materialize(scale * share)
        signal = add_up(*(n * a for n, a in zip(cells, advantage, strict=True))) * factor
    else:
        whole = advantage if scale is None else [a * scale for a in advantage]
        weighted = _weighted(job, whole, [n * share for n in cells], change)
        signal = add_up(*(n * w for n, w in zip(cells, weighted, strict=True))) * share
    return signal, add_up(*cells) * share, silent.astype(cells[0].dtype)


def _weighted(job: Job, advantage: list[Array], share: list[Array], change: Change | None) -> list[Array]:
    """Coefficient of grad log pi of every column, [K, L] or [L] as its advantage. share: of its cells in the group.

    What weighs whole groups sees all cells at once, also those with share 0.
    """
    if change is None:
        return advantage
    estimator = job.learner.estimator
    if not weighs_groups(job.learner):
        return [a * estimator.weight(change.ratio, a) for a in advantage]

    shape, lanes = (len(share), *change.ratio.shape), change.ratio.shape[-1]

    def of_cells(by_column: list[Array]) -> Array:
        if len(by_column) == 1:
            return jnp.broadcast_to(by_column[0], shape[1:])
        rows = materialize(jnp.stack(by_column))  # [columns, K, L], or [columns, L] where arms are alike
        return jnp.broadcast_to(rows if rows.ndim == 3 else rows[:, None], shape).reshape(-1, lanes)

    def of_arms(by_arm: Array) -> Array:
        return jnp.broadcast_to(by_arm, shape).reshape(-1, lanes)

    shares = of_cells(share)
    log_old = of_arms(change.acting.log_policy(_IMPOSSIBLE))
    advantages = jnp.where(shares > 0, of_cells(advantage), 0)
    if estimator.of_weights is not None:
        weights = estimator.of_weights(of_arms(change.current.weights), log_old, advantages, shares)
    else:
        log_policy = of_arms(change.current.log_policy(_IMPOSSIBLE))
        weights = estimator.of_group(log_policy, log_old, advantages, shares)
    return list(weights.reshape(shape))
