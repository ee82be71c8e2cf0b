"""Counts of a group given that it is not silent (its rewards are not all equal), without redrawing.

Let v_u be the chance of reward value u in one draw. The order of the draws does not matter for counts, so the
decomposition of `simulation.draw` may be arranged as follows: G - 1 draws and one more; with

    P(u) ~ v_u (1 - v_u^{G-1}),    P(J = j | u) = v_u^{j-1} (1 - v_u) / (1 - v_u^{G-1}),  j = 1 .. G-1,

the first J of the G - 1 draws are made given the value u, the others freely, and the one more given another value than
u. A free draw is compared with the dithered thresholds of all cells, a draw given u with those of the cells of u (two
tables, one selection per comparison: see `multinomial` for what the dither costs); the one more inverts the sum over
the cells of other values with a uniform of its own. No difference of nearly equal numbers is taken close to a vertex:
1 - v_u is a sum of other values' chances where v_u > 1/2, and 1 - v^n = (1 - v) (1 + v + ... + v^{n-1}).

Two arms with fixed rewards: the count n of the rarer arm, inverted within 1 .. G - 1; with odds o

    P(n | 0 < n < G) ~ C(G, n) o^{n-1}.

At a vertex no such group exists. Our exponential stops at 2^-120: where all other values together have a
chance below 2^-109, the group is silent, all of it given u. Derived here.
"""

from math import comb

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._numerics import leading_sum, materialize
from bandit_lab._types import Array
from bandit_lab.simulation.fast.multinomial import (
    LARGEST_INVERTED,
    between,
    number_below,
    running_sum,
    shift_of,
    threshold,
    thresholds,
)
from bandit_lab.simulation.fast.program import Program
from bandit_lab.simulation.fast.random_bits import unit_uniform

_VERTEX = 2.0**-109
_EXTRA_WORDS = 4  # the value u, the place J, the draw of another value, two dithers


def words_for_non_silent(group_size: int) -> int:
    """Words per group: one for two of its G - 1 draws, and four."""
    return group_size // 2 + _EXTRA_WORDS


def value_law(program: Program, weights: Array, total: Array, chances: Array) -> Array:
    """Chance v_u of every reward value [U, L]. weights: [K, L]. total: [L], their sum. chances: [K, columns],
    or [K, columns, L] of every lane."""
    share = 1 / total
    if program.columns > 1:
        per_lane = chances[..., None] if chances.ndim == 2 else chances
        rows = [leading_sum(weights * per_lane[:, c]) * share for c in range(program.columns)]
    elif len(program.classes) == weights.shape[0]:
        return materialize(weights * share)
    else:
        rows = [leading_sum(jnp.stack([weights[arm] for arm in arms])) * share for arms in program.classes]
    return materialize(jnp.stack(rows))


def chance_of_silence(law: Array, size: int) -> Array:
    """sum_u v_u^G [L]."""
    return leading_sum(_power(law, size))


def non_silent_counts(
    program: Program, weights: Array, total: Array, chances: Array, reached: Array, words: Array, size: int
) -> Array:
    """Counts [K * columns, L] int16 of the cells (arm, reward) in a group that is not silent.

    weights: [K, L]. total: [L], their sum. chances, reached: [K, columns] of an arm's rewards and their cumulative
    sums. words: [words_for_non_silent(size), L].
    """
    draws, (for_value, for_place, for_other, dithers) = words[:-_EXTRA_WORDS], words[-_EXTRA_WORDS:]
    law = value_law(program, weights, total, chances)
    value, place, vertex = _value_and_place(
        law, size, unit_uniform(for_value, law.dtype), unit_uniform(for_place, law.dtype)
    )
    free = thresholds(weights, total, reached, dithers)
    same, other = _given_the_value(program, weights, chances, value, vertex, dithers >> np.uint32(16))
    level = materialize(unit_uniform(for_other, law.dtype) * other[-1])
    extra = (level < other[1:-1]).astype(jnp.uint16)

    def edges(order: Array | int) -> Array:
        return jnp.where(jnp.asarray(order, jnp.uint16) < place, same, free)

    return between(number_below(draws, size - 1, edges) + extra, size)


def inverted_non_silent(odds: Array, word: Array, increments: Array) -> Array:
    """sum_{j < n} increments[j] with n ~ Binomial(G, odds / (1 + odds)) given 0 < n < G; 0 at a vertex.

    odds: [L] <= 1, of the rarer arm. word: [L]. increments: [G].
    """
    dtype, size = odds.dtype, increments.shape[0]
    whole = jnp.full_like(odds, size)
    for n in range(size - 2, 0, -1):
        whole = whole * odds + dtype.type(comb(size, n))
    level = materialize(unit_uniform(word, odds.dtype) * whole)
    power, partial, result = jnp.ones_like(odds), jnp.full_like(odds, size), jnp.full_like(odds, increments[0])
    for j in range(1, size - 1):
        result = result + jnp.where(level >= partial, increments[j], dtype.type(0))
        power = power * odds
        partial = partial + dtype.type(comb(size, j + 1)) * power
    return jnp.where(odds < _VERTEX, 0, result)


def _power(x: Array, n: int) -> Array:
    result = x
    for bit in bin(n)[3:]:
        result = result * result * x if bit == "1" else result * result
    return result


def _geometric_sum(x: Array, n: int) -> Array:
    """1 + x + ... + x^{n-1}."""
    total, power = jnp.ones_like(x), x
    for bit in bin(n)[3:]:
        total, power = total * (power + 1), power * power
        if bit == "1":
            total, power = total * x + 1, power * x
    return total


def mixed_weights(law: Array, size: int) -> Array:
    """Chance of a group that is not silent [...], without cancellation close to a vertex. law: [U, ...]."""
    others, _ = _others(law)
    return leading_sum(law * others * _geometric_sum(law, size - 1))


def _others(law: Array) -> tuple[Array, Array]:
    """(1 - v_u [U, ...]; whether the policy is at a vertex [...])."""
    highest = jnp.max(law, axis=0)
    rest = leading_sum(jnp.where(law < highest, law, 0))
    others = jnp.where((law == highest) & (highest > 0.5), rest, 1 - law)
    return others, (highest > 0.5) & (rest < _VERTEX)


def _value_and_place(law: Array, size: int, for_value: Array, for_place: Array) -> tuple[Array, Array, Array]:
    """(index of u, int32; J, uint16; whether the policy is at a vertex), [L] each. law: [U, L]."""
    others, at_vertex = _others(law)
    vertex = materialize(at_vertex.astype(jnp.int32)) > 0
    differs = others * _geometric_sum(law, size - 1)
    upper = running_sum(materialize(law * jnp.where(vertex, 1, differs)))
    level = materialize(for_value * upper[-1])
    value = materialize(leading_sum((level >= upper[1:]).astype(jnp.int32)))
    mine = lax.broadcasted_iota(jnp.int32, (law.shape[0], 1), 0) == value
    if size <= LARGEST_INVERTED:
        chance = materialize(leading_sum(jnp.where(mine, law, 0)))
        level = materialize(for_place * _geometric_sum(chance, size - 1))
        place, partial = jnp.ones_like(chance), jnp.ones_like(chance)
        for _ in range(size - 2):  # P(J <= j) is the sum of j terms over the sum of all
            place = place + jnp.where(level >= partial, chance.dtype.type(1), chance.dtype.type(0))
            partial = partial * chance + 1
    else:
        other, differ = (materialize(leading_sum(jnp.where(mine, x, 0))) for x in (others, differs))
        place = jnp.log1p(-for_place * jnp.minimum(differ, 1)) / jnp.log1p(-jnp.minimum(other, 1))
        place = jnp.clip(jnp.ceil(place), 1, size - 1)
    place = jnp.where(vertex, size - 1, place)
    return value, materialize(place.astype(jnp.int32).astype(jnp.uint16)), vertex


def _given_the_value(
    program: Program, weights: Array, chances: Array, value: Array, vertex: Array, dither: Array
) -> tuple[Array, Array]:
    """(thresholds between the cells with value u [M - 1, L], uint16; cumulative weights [M + 1, L] of those without).

    At a vertex the weights are those with it.
    """
    dtype, (arms, lanes), columns = weights.dtype, weights.shape, program.columns
    value_of = np.tile(np.arange(columns), arms)
    for index, members in enumerate(program.classes):
        value_of[list(members)] = index
    mine = jnp.asarray(value_of, jnp.int32)[:, None] == value
    per_lane = chances[..., None] if chances.ndim == 2 else chances
    share = (weights[:, None] * per_lane).reshape(arms * columns, lanes)
    same = running_sum(materialize(jnp.where(mine, share, 0)))
    other = running_sum(materialize(jnp.where(mine == vertex, share, 0)))
    scale = materialize(dtype.type(2**15) / same[-1])
    return materialize(threshold(same[1:-1] * scale, shift_of(dither, dtype))), other
