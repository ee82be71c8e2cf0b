"""Two arms in every lane: one logit is the whole state.

Both components of the gradient add up to zero, so theta_0 + theta_1 stays what it was (s). An optimiser that treats
components alike and is odd in the gradient moves them symmetrically: the heavy ball in its three forms, Adam. Weight
decay shrinks the gap as it shrinks each logit. The state is x = theta_0 - s / 2 with the logit gap 2 x; ascent
directions are those of arm 0, [1, L].

With fixed rewards a group is n ~ Binomial(G, p), drawn as the count of the rarer arm; with random rewards the four
cells are counted. Under the default rules (see `is_plain`) the signal of arm 0 is written out for two arms. For fixed
rewards it is n (G - n) / G^2 times (r_0 - r_1) times the scale of the group, whichever arm n counts. It is
added up while n is drawn. All other rules take the counts as `many_arms` has them, at the policy of both arms.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from bandit_lab._numerics import add_up, exp, log, materialize
from bandit_lab._types import Array
from bandit_lab.grpo import Exact, Learner
from bandit_lab.simulation.fast import many_arms
from bandit_lab.simulation.fast.advantages import scale_of, scales
from bandit_lab.simulation.fast.multinomial import (
    draws_and_dither,
    inverted_binomial,
    number_below,
    shift_of,
    threshold,
    words_for_counting,
)
from bandit_lab.simulation.fast.non_silent import (
    chance_of_silence,
    inverted_non_silent,
    non_silent_counts,
    value_law,
    words_for_non_silent,
)
from bandit_lab.simulation.fast.program import BanditTables, Job
from bandit_lab.simulation.fast.random_bits import GENERATORS, as_float


class Policy(NamedTuple):
    """logits: [1, L], half the logit gap. odds: [L] of the rarer arm, <= 1. common, rare: [L] probabilities of the two.
    first: [L] probability of arm 0. reward: [L] expected reported reward, NaN where the logits are not finite."""

    logits: Array
    odds: Array
    common: Array
    rare: Array
    first: Array
    reward: Array

    @property
    def largest_probability(self) -> Array:
        """[L] of the more likely arm."""
        return self.common

    @property
    def probabilities(self) -> Array:
        """[2, L] of both arms."""
        return self.both.weights

    @property
    def both(self) -> "_BothArms":
        """The same policy, [2, L] written out."""
        gap = (self.logits + self.logits) * np.array([[1], [-1]], self.logits.dtype)
        weights = materialize(jnp.where(gap > 0, self.common, self.rare))
        return _BothArms(jnp.minimum(gap, 0), weights, jnp.ones_like(self.common), self.reward)


class _BothArms(many_arms.Policy):
    """A policy of two arms as `many_arms` sees one: weights are probabilities, of sum 1."""

    def log_policy(self, least: float = -jnp.inf) -> Array:
        """Log-probabilities [2, L], at least `least`. The logits are those over the more likely arm's."""
        return jnp.maximum(self.logits + materialize(log(jnp.maximum(self.weights[0], self.weights[1]))), least)


def is_plain(learner: Learner) -> bool:
    """Whether the signal is (reward - mean) times a number per group, and the KL term the exact one."""
    exact = type(learner.kl_estimator) is Exact and learner.estimator.ignores_ratio
    return exact and scales(learner) and learner.prompts == 1


def with_tables(learner: Learner, tables: BanditTables) -> BanditTables:
    """The tables of two arms with fixed rewards, completed by what follows from how often an arm was drawn."""
    size, values = learner.group_size, tables.values[:, 0]
    n = jnp.arange(size + 1, dtype=values.dtype)
    mean = (n * values[0] + (size - n) * values[1]) / size
    variance = (n * (values[0] - mean) ** 2 + (size - n) * (values[1] - mean) ** 2) / size
    silent = (n == 0) | (n == size)
    scale = jnp.where(silent, 0, scale_of(learner, variance, silent, size))
    if not is_plain(learner):
        return replace(tables, scale_steps=jnp.diff(scale[: size // 2 + 1]))
    signal = n * (values[0] - mean) * scale / size
    return replace(tables, increments=jnp.diff(signal), least=jnp.min(jnp.abs(signal[1:-1])) / 2)


def policy_of(job: Job, logits: Array) -> Policy:
    """The policy with half the logit gap [1, L]."""
    gap = logits[0] + logits[0]
    odds = materialize(exp(-jnp.abs(gap)))
    common = 1 / (odds + 1)
    rare = odds * common
    first, means = jnp.where(gap > 0, common, rare), job.tables.means
    reward = materialize(first * (means[0] - means[1]) + means[1] + 0 * logits[0])
    return Policy(logits, odds, common, rare, first, reward)


def ascent(job: Job, acting: Policy, current: Policy, step: Array) -> tuple[Array, Array]:
    """(ascent direction of arm 0 [1, L], whether the group is silent [L])."""
    if not is_plain(job.learner):
        both = acting.both
        now = both if current is acting else current.both
        first = step * job.learner.prompts

        def draw(prompt: int) -> many_arms.Drawn:
            return job, _counts(job, acting, first + prompt)

        direction, silent = many_arms.ascent_from(job, both, now, draw)
        return direction[:1], silent
    at = acting if job.learner.estimator.at_snapshot else current
    reference = job.tables.reference
    distance = (at.logits[0] + at.logits[0]) - (reference[0] - reference[1])
    penalty = (at.common * at.rare) * (job.lanes.kl_weight * distance)
    signal, silent = _inverted(job, acting, step) if job.program.columns == 1 else _counted(job, acting, step)
    return materialize(signal - penalty)[None], silent


def _words(job: Job, step: Array, count: int) -> Array:
    return materialize(GENERATORS[job.program.generator].random_bits(job.lanes.keys, step, count))


def _inverted(job: Job, acting: Policy, step: Array) -> tuple[Array, Array]:
    word = _words(job, step, 1)[0]
    if job.learner.advantage.drops_silent:
        law = jnp.stack([acting.common, acting.rare])
        return inverted_non_silent(acting.odds, word, job.tables.increments), chance_of_silence(
            law, job.learner.group_size
        )
    signal = inverted_binomial(acting.odds, word, job.tables.increments)
    return signal, (jnp.abs(signal) < job.tables.least).astype(acting.odds.dtype)


def _counts(job: Job, acting: Policy, group: Array) -> list[Array]:
    """Counts [2, L] of every column in one group."""
    size, columns, dtype = job.learner.group_size, job.program.columns, acting.odds.dtype
    if columns > 1:
        cells = (_non_silent_cells if job.learner.advantage.drops_silent else _cells)(job, acting, group)
        return [materialize(jnp.stack(cells[column::columns])) for column in range(columns)]
    draw = inverted_non_silent if job.learner.advantage.drops_silent else inverted_binomial
    rarer = materialize(draw(acting.odds, _words(job, group, 1)[0], jnp.ones(size, dtype)))
    first = jnp.where(acting.logits > 0, size - rarer, rarer)
    return [materialize(np.array([[0], [size]], dtype) + np.array([[1], [-1]], dtype) * first)]


def _counted(job: Job, acting: Policy, step: Array) -> tuple[Array, Array]:
    """Cells in the order (arm 0, value 0), (arm 0, value 1), ..., (arm 1, ...)."""
    size, columns, dtype = job.learner.group_size, job.program.columns, acting.odds.dtype
    drops = job.learner.advantage.drops_silent
    cells = (_non_silent_cells if drops else _cells)(job, acting, step)
    first_arm, per_value = cells[:columns], [cells[c] + cells[columns + c] for c in range(columns)]
    values = [job.tables.values[c] for c in range(columns)]
    mean = materialize(add_up(*(n * r for n, r in zip(per_value, values, strict=True))) * (1 / size))
    variance = add_up(*(n * (r - mean) ** 2 for n, r in zip(per_value, values, strict=True))) * (1 / size)
    silent = add_up(*(n * n for n in per_value)) >= size * size
    scale = scale_of(job.learner, variance, silent, size)
    signal = add_up(*(n * (r - mean) for n, r in zip(first_arm, values, strict=True))) * scale
    if drops:
        chance = chance_of_silence(
            value_law(job.program, _weights(acting), jnp.ones_like(acting.odds), job.tables.chances), size
        )
        return signal * (1 / size), chance
    return signal * (1 / size), silent.astype(dtype)


def _cells(job: Job, acting: Policy, step: Array) -> list[Array]:
    size, columns, dtype = job.learner.group_size, job.program.columns, acting.odds.dtype
    expensive = GENERATORS[job.program.generator].expensive
    draws, dither = draws_and_dither(_words(job, step, words_for_counting(size, expensive)), size)
    shift = shift_of(dither, dtype)
    reached = job.tables.reached * 2**15
    first, second = acting.first * (2**15), 1 - acting.first
    levels = [acting.first * reached[0, c] for c in range(columns - 1)] + [first]
    levels += [first + second * reached[1, c] for c in range(columns - 1)]

    def below_level(level: Array) -> Array:
        edge = materialize(threshold(level, shift))
        return number_below(draws, size, lambda _: edge)

    below = [below_level(level) for level in levels]
    below = [jnp.zeros_like(below[0]), *below, jnp.full_like(below[0], size)]
    return [materialize(as_float(b - a, dtype)) for a, b in pairwise(below)]


def _weights(acting: Policy) -> Array:
    return materialize(jnp.stack([acting.first, jnp.where(acting.logits[0] > 0, acting.rare, acting.common)]))


def _non_silent_cells(job: Job, acting: Policy, step: Array) -> list[Array]:
    size, tables, weights = job.learner.group_size, job.tables, _weights(acting)
    words = _words(job, step, words_for_non_silent(size))
    one = jnp.ones_like(acting.odds)
    drawn = non_silent_counts(job.program, weights, one, tables.chances, tables.reached, words, size)
    drawn = materialize(as_float(drawn, acting.odds.dtype))
    return [drawn[cell] for cell in range(drawn.shape[0])]
