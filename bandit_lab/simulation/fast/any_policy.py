"""Any policy in every lane: log pi(theta), and weights on grad log pi pulled back to theta.

The bandit's own `log_policy` gives log-probabilities [X, K] of K arms in X contexts. Its vector-Jacobian product turns
the coefficient of every grad log pi(k | x) into an ascent direction. Both are vectorised over the lanes, as the last
axis. Groups are counts of the cells (arm, reward value) of one context, drawn uniformly for every group
and lane. Their advantages and weights are those of `many_arms`. An infinite group is one of every context.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import gcd
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from bandit_lab._numerics import exp, leading_max, leading_sum, leading_sum_of, log, materialize
from bandit_lab._types import Array
from bandit_lab.simulation.fast import many_arms
from bandit_lab.simulation.fast.advantages import scales
from bandit_lab.simulation.fast.non_silent import chance_of_silence, mixed_weights, value_law
from bandit_lab.simulation.fast.penalty import penalty
from bandit_lab.simulation.fast.program import Job
from bandit_lab.simulation.fast.random_bits import unit_uniform
from bandit_lab.simulation.fast.softmax_head import cut_at_softmax

LARGEST_CONTEXTS = 64
"""Most contexts among which that of a group is chosen by comparisons."""


class Policy(NamedTuple):
    """A policy of every lane. logits: [D, L] its parameters theta. log, weights: [X K, L] log-probabilities and
    probabilities, contexts leading. reward: [L] expected reported reward, NaN where parameters are not finite."""

    logits: Array
    log: Array
    weights: Array
    reward: Array

    @property
    def largest_probability(self) -> Array:
        """[L] of the most likely arm of all contexts."""
        return leading_max(self.weights)

    @property
    def probabilities(self) -> Array:
        """[X K, L] of every arm in every context."""
        return self.weights


class _Row(many_arms.Policy):
    """A policy as `many_arms` sees one. logits: its log-probabilities [K, L]. total: 1."""

    def log_policy(self, least: float = -jnp.inf) -> Array:
        """Log-probabilities [K, L], at least `least`."""
        return jnp.maximum(self.logits, least)


def _log_policy(job: Job, theta: Array) -> Array:
    """[D, L] -> [X K, L]."""

    def of_all(function: Callable, x: Array) -> Array:
        return jax.vmap(function, -1, -1)(x)

    log_policy = job.tables.bandit.log_policy
    cut = cut_at_softmax(log_policy, theta[:, 0])
    if cut is None:
        return of_all(log_policy, theta).reshape(-1, theta.shape[-1])
    before, after = cut
    logarithms = _log_softmax(of_all(before, theta))
    if after is not None:
        logarithms = of_all(after, logarithms)
    return logarithms.reshape(-1, theta.shape[-1])


@jax.custom_vjp
def _log_softmax(logits: Array) -> Array:
    """Log-softmax of logits [..., n, L] over n."""
    return _softmax(logits)[0]


def _softmax(logits: Array) -> tuple[Array, Array]:
    logits = materialize(logits)
    rows = jnp.moveaxis(logits, -2, 0)
    highest = leading_max(rows)
    weights = materialize(exp(rows - highest))
    total = leading_sum(weights)
    share, level = materialize(1 / total), materialize(highest + log(total))
    return jnp.moveaxis(rows - level, 0, -2), jnp.moveaxis(weights * share, 0, -2)


def _back(policy: Array, coefficient: Array) -> tuple[Array]:
    total = leading_sum(jnp.moveaxis(coefficient, -2, 0))
    return (materialize(coefficient - policy * jnp.expand_dims(total, -2)),)


_log_softmax.defvjp(_softmax, _back)


def policy_of(job: Job, logits: Array) -> Policy:
    """The policy with parameters theta [D, L]."""
    log_policy = materialize(_log_policy(job, logits))
    weights = materialize(exp(log_policy))
    reward = leading_sum_of(jnp.multiply, weights, job.tables.means) * (1 / job.program.contexts)
    side_by_side = logits.reshape(-1, gcd(logits.shape[0], 8), logits.shape[-1])  # in one long sum every addition waits
    reward = materialize(reward + 0 * leading_sum(leading_sum(side_by_side)))
    return Policy(logits, log_policy, weights, reward)


def ascent(job: Job, acting: Policy, current: Policy, step: Array) -> tuple[Array, Array]:
    """(ascent direction [D, L], share of silent groups [L]) at one step. See `many_arms.ascent`."""
    prompts, at = job.learner.prompts, acting if job.learner.estimator.at_snapshot else current
    one = _group_of_any_context if job.program.contexts > 1 else _group
    if job.program.dynamics == "mean_field":
        signal, frequency, silent = _infinite_groups(job, acting, current)
    elif prompts == 1:
        signal, frequency, silent = one(job, acting, current, step)
    else:

        def add(prompt: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
            parts = one(job, acting, current, step * prompts + prompt)
            return tuple(materialize(x + y) for x, y in zip(so_far, parts, strict=True))

        cells, lanes = jnp.zeros_like(acting.weights), jnp.zeros_like(acting.reward)
        totals = lax.fori_loop(0, prompts, add, (cells, cells, lanes))
        signal, frequency, silent = (x * (1 / prompts) for x in totals)
    if job.learner.advantage.drops_silent and job.program.dynamics == "sampled":
        silent = _chance_of_silence(job, acting)
    contexts = job.program.contexts
    held = penalty(job, _row(at), _row(acting), frequency * contexts) * (1 / contexts)
    pull_back = jax.vjp(partial(_log_policy, job), at.logits)[1]
    return pull_back(materialize(signal - held))[0], silent


def _row(policy: Policy) -> _Row:
    return _Row(policy.log, policy.weights, jnp.ones_like(policy.reward), policy.reward)


def _infinite_groups(job: Job, acting: Policy, current: Policy) -> tuple[Array, Array, Array]:
    """(signal, frequency [X K, L], silent [L]) of infinite groups of every context."""
    contexts, (size, lanes) = job.program.contexts, acting.weights.shape
    silent, arms = jnp.zeros(lanes, acting.weights.dtype), size // contexts
    program = job.program if contexts == 1 else replace(job.program, reported_is_trained=False)  # the reported: of all
    job = job._replace(program=program)
    own = {name: getattr(job.tables, name) for name in ("trained", "variances")}
    if scales(job.learner) and job.learner.estimator.ignores_ratio:

        def side_by_side(x: Array) -> Array:
            """[X K, .] -> [K, X, .]."""
            return jnp.moveaxis(x.reshape(contexts, arms, -1), 1, 0)

        local = job._replace(tables=replace(job.tables, **{name: side_by_side(x) for name, x in own.items()}))
        row = _Row(acting.log, side_by_side(acting.weights), jnp.ones((), silent.dtype), acting.reward)
        slope, offset = (materialize(x)[:, None] for x in many_arms.affine(local, row))
        trained, weights = (x.reshape(contexts, arms, -1) for x in (own["trained"], acting.weights))
        signal = (weights * (trained * slope - offset) * (1 / contexts)).reshape(size, lanes)
        return signal, acting.weights * (1 / contexts), silent

    def group(local: Job, here: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
        def row_of(x: Policy) -> _Row:
            return _Row(here(x.log), here(x.weights), jnp.ones_like(x.reward), x.reward)

        row = row_of(acting)
        change = many_arms.change_of(job, row, row if current is acting else row_of(current))
        return many_arms.infinite_group(local, row, change)

    if contexts == 1:
        return group(job, lambda table: table)

    def add(context: Array, so_far: tuple[Array, Array]) -> tuple[Array, ...]:
        def here(table: Array) -> Array:
            return lax.dynamic_slice_in_dim(table, context * arms, arms)

        chances = lax.dynamic_index_in_dim(job.tables.chances, context, 0, keepdims=False)
        tables = replace(job.tables, chances=chances, **{name: here(x) for name, x in own.items()})
        parts = group(job._replace(tables=tables), here)[:2]
        put = lax.dynamic_update_slice_in_dim
        return tuple(put(x, y * (1 / contexts), context * arms, 0) for x, y in zip(so_far, parts, strict=True))

    nothing = jnp.zeros_like(acting.weights)
    return *lax.fori_loop(0, contexts, add, (nothing, nothing)), silent


def _group(job: Job, acting: Policy, current: Policy, group: Array) -> tuple[Array, Array, Array]:
    """(signal, frequency [K, L], silent [L]) of one group of the only context."""
    row = _row(acting)
    change = many_arms.change_of(job, row, row if current is acting else _row(current))
    return many_arms.group_signal(*many_arms.drawn_group(job, row, group), change)


def _group_of_any_context(job: Job, acting: Policy, current: Policy, group: Array) -> tuple[Array, Array, Array]:
    """(signal, frequency [X K, L], silent [L]) of one group whose context is drawn."""
    contexts, tables = job.program.contexts, job.tables
    words = many_arms.group_words(job, group, 1)
    context = _context(job, acting, words[-1])
    is_at = [context == x for x in range(contexts)]

    def here(table: Array) -> Array:
        """[X, ..., L or 1] -> [..., L]."""
        selected = jnp.broadcast_to(table[0], (*table.shape[1:-1], context.shape[0]))
        for x in range(1, contexts):
            selected = jnp.where(is_at[x], table[x], selected)
        return materialize(selected)

    def row_of(policy: Policy) -> _Row:
        log, weights = (here(x.reshape(contexts, -1, x.shape[-1])) for x in (policy.log, policy.weights))
        return _Row(log, weights, jnp.ones_like(policy.reward), policy.reward)

    def back(row: Array) -> Array:
        """[K, L] -> [X K, L], zero in the other contexts."""
        places = lax.broadcasted_iota(jnp.int32, (contexts, 1, 1), 0)
        return jnp.where(places == context, row, 0).reshape(-1, row.shape[-1])

    chances, reached = (here(x[..., None]) for x in (tables.chances, tables.reached))
    local = job._replace(tables=replace(tables, chances=chances, reached=reached))
    row = row_of(acting)
    change = many_arms.change_of(job, row, row if current is acting else row_of(current))
    counts = many_arms.counts_from(local, row, words[:-1])
    signal, frequency, silent = many_arms.group_signal(local, counts, change)
    return back(materialize(signal)), back(materialize(frequency)), silent


def _context(job: Job, acting: Policy, word: Array) -> Array:
    """The context [L] of a group: uniform; where silent groups are dropped, weighted by the chance of another one."""
    contexts, dtype = job.program.contexts, acting.weights.dtype
    uniform = unit_uniform(word, dtype)
    if not job.learner.advantage.drops_silent:
        return materialize((uniform * contexts).astype(jnp.int32))
    weights = mixed_weights(_value_laws(job, acting), job.learner.group_size)  # [X, L]
    level, reached = materialize(uniform * leading_sum(weights)), jnp.zeros_like(uniform)
    context = jnp.zeros(uniform.shape, jnp.int32)
    for x in range(contexts - 1):
        reached = materialize(reached + weights[x])
        context = context + (level >= reached).astype(jnp.int32)
    return materialize(context)


def _value_laws(job: Job, acting: Policy) -> Array:
    """Chance of every reward value in every context [U, X, L]."""
    if job.program.contexts == 1:
        total = jnp.ones_like(acting.reward)
        return value_law(job.program, acting.weights, total, job.tables.chances)[:, None]
    weights = acting.weights.reshape(job.program.contexts, -1, acting.weights.shape[-1])
    columns = [weights * job.tables.chances[:, :, c, None] for c in range(job.program.columns)]
    return materialize(jnp.stack([leading_sum(jnp.moveaxis(x, 1, 0)) for x in columns]))


def _chance_of_silence(job: Job, acting: Policy) -> Array:
    """[L], mean over contexts."""
    each = chance_of_silence(_value_laws(job, acting), job.learner.group_size)
    return leading_sum(each) * (1 / job.program.contexts)
