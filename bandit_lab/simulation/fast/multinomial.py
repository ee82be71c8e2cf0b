"""Counts of a group instead of its actions.

A group of G enters the update only through n_m, how many of its draws fell into cell m (an arm with one of its reward
values). The draws are 15-bit integers x; n_m is the number of them in [T_{m-1}, T_m), counted by subtractions in 16
bits. The thresholds are dithered by one uniform U per group,

    T_m = floor(2^15 c_m + U),    E[T_m] = 2^15 c_m,    c_m the cumulative probability,

so that the chance of a cell is right to the rounding of c_m and of c_m + U in float32 (2^-23 c_m) and to the 16 bits
of U (2^-31): it is no multiple of 2^-15. What the dither costs is independence: two draws of one group share U, and
with f the fractional part of 2^15 c_m the covariance of "both below T_m" is f (1 - f) 2^-30 <= 2^-32. The variance of a
count grows by the factor 1 + (G - 1) cov / (p (1 - p)): by less than 1e-6 for a common cell, by at most (G - 1) 2^-15
for a cell rarer than 2^-15 (0.2 % at G = 64). Derived here.

With two cells the count of the rarer one is drawn by inverting the binomial distribution with one 24-bit uniform.
"""

from collections.abc import Callable
from math import comb, gcd
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._numerics import add_up, materialize
from bandit_lab._types import Array
from bandit_lab.simulation.fast.random_bits import as_float

LARGEST_INVERTED = 32
"""Largest group whose binomial count is drawn by inversion: its terms stay far within float32."""
LARGEST_GROUP = 2**14
_SCALE = 2**15
_WORDS_OF_A_DITHER = 8
_ROWS_PER_PART = 8  # of a running sum, at most
_ROWS_WRITTEN_OUT = 8
_BITS = 16  # of a word of comparisons
_FEW_THRESHOLDS = 4
_WORDS_TOGETHER = 32  # words whose draws are compared in one expression; a larger group takes a loop


def words_for_counting(group_size: int, expensive: bool) -> int:
    """Words per group: one for two draws, and one for the dither unless words are expensive and bits are spare."""
    draws = (group_size + 1) // 2
    return draws if expensive and draws >= _WORDS_OF_A_DITHER else draws + 1


def draws_and_dither(words: Array, group_size: int) -> tuple[Array, Array]:
    """(words [ceil(G/2), L] of the draws, word [L] whose low 16 bits are the dither).

    Without a word of its own the dither is put together from bits 15 and 31 of the first eight, which no draw uses.
    """
    draws = (group_size + 1) // 2
    if words.shape[0] > draws:
        return words[:draws], words[draws]
    bits = [((words[j] >> 15) & np.uint32(0x10001)) << np.uint32(j) for j in range(_WORDS_OF_A_DITHER)]
    both = materialize(add_up(*bits))
    return words, both | (both >> np.uint32(8))


def shift_of(dither: Array, dtype: Any) -> Array:
    """U - 1/2 from the low 16 bits of a word: the nearest integer to x + U - 1/2 is floor(x + U)."""
    return materialize(as_float(dither & np.uint32(0xFFFF), dtype) * dtype.type(2.0**-16) - dtype.type(0.5))


def threshold(level: Array, shift: Array) -> Array:
    """floor(level + U) as uint16, at most 2^15. level: in [0, 2^15] up to rounding. shift: `shift_of`.

    Adding 1.5 * 2^23 leaves the nearest integer, also of a number just below 0, in the low bits of a float32.
    """
    x = level + shift
    if x.dtype != jnp.float32:
        whole = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.int32)
    else:
        whole = lax.bitcast_convert_type(x + np.float32(1.5 * 2.0**23), jnp.int32)
    return jnp.minimum(whole.astype(jnp.uint16), np.uint16(_SCALE))


def thresholds(weights: Array, total: Array, reached: Array, dither: Array) -> Array:
    """T_1 .. T_{M-1} [M - 1, L] between the M = K * columns cells (arm, reward); T_0 = 0 and T_M = 2^15 are left out.

    weights: [K, L] of the arms. total: [L], their sum. reached: [K, columns] cumulative chances of an arm's
    rewards, or [K, columns, L] of every lane. dither: [L] words.
    """
    dtype, (arms, lanes), columns = weights.dtype, weights.shape, reached.shape[1]
    shift, scale = shift_of(dither, dtype), materialize(dtype.type(_SCALE) / total)
    inside, before = _sums_in_parts(weights)
    reached = reached[..., None] if reached.ndim == 2 else reached
    weights, reached = weights.reshape(inside.shape), reached.reshape(*inside.shape[:2], columns, -1)
    inside, before = materialize(inside), before[:-1, None]

    table = jnp.zeros((arms, columns, lanes), jnp.uint16)
    for column in range(columns):
        own = weights if column == columns - 1 else weights * reached[..., column, :]
        rows = threshold((inside + own + before) * scale, shift).reshape(arms, 1, lanes)  # in order also when rounded
        table = rows if columns == 1 else lax.dynamic_update_slice_in_dim(table, rows, column, 1)
    return materialize(table.reshape(arms * columns, lanes))[:-1]


def running_sum(rows: Array) -> Array:
    """Cumulative sums [n + 1, L] of rows [n, L], from 0."""
    count = rows.shape[0]
    if count <= _ROWS_WRITTEN_OUT:
        sums = [jnp.zeros_like(rows[0])]
        for i in range(count):
            sums.append(sums[-1] + rows[i] if i else rows[0])
        return materialize(jnp.stack(sums))
    if gcd(count, _ROWS_PER_PART) > 1:
        inside, before = _sums_in_parts(rows)
        return materialize(jnp.concatenate([(inside + before[:-1, None]).reshape(rows.shape), before[-1:]]))

    def add(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        below, table = carry
        below = below + lax.dynamic_index_in_dim(rows, i, 0, keepdims=False)
        return below, lax.dynamic_update_index_in_dim(table, below, i + 1, 0)

    table = jnp.zeros((count + 1, rows.shape[1]), rows.dtype)
    return lax.fori_loop(0, count, add, (jnp.zeros_like(rows[0]), table))[1]


def _sums_in_parts(rows: Array) -> tuple[Array, Array]:
    """Sums [P, n / P, L] of the rows [n, L] before each one within its part, and [P + 1, L] before each part.

    All parts are added up side by side: in one long sum every addition waits for the one before.
    """
    steps = gcd(rows.shape[0], _ROWS_PER_PART)
    rows = rows.reshape(-1, steps, rows.shape[1])
    below = [jnp.zeros_like(rows[:, 0])]
    for step in range(steps):
        below.append(materialize(below[-1] + rows[:, step]))
    return jnp.stack(below[:-1], axis=1), running_sum(below[-1])


def number_below(words: Array, size: int, edges: Callable[[Array | int], Array]) -> Array:
    """How many of `size` draws lie below their thresholds: [..., L] uint16.

    words: [ceil(size/2), L], a draw in bits 0..14 and one in bits 16..30 of each. edges(order): [..., L] uint16, the
    thresholds of the draw with that number (0 .. size - 1); they may all be the same.
    """
    blocks = (size - 1) // (2 * _WORDS_TOGETHER)
    first = blocks * _WORDS_TOGETHER
    last = _number_below(words[first:], size - 2 * first, lambda order: edges(2 * first + order))
    if blocks == 0:
        return last

    def add_block(block: Array, below: Array) -> Array:
        start = block * _WORDS_TOGETHER
        some = lax.dynamic_slice_in_dim(words, start, _WORDS_TOGETHER)
        return below + _number_below(some, 2 * _WORDS_TOGETHER, lambda order: edges(2 * start + order))

    return lax.fori_loop(0, blocks, add_block, last)


def _number_below(words: Array, size: int, edges: Callable[[int], Array]) -> Array:
    """x < T is bit 15 of x - T. Sixteen such bits are shifted into one word before they are counted: together with the
    subtraction that is two instructions per comparison where a processor shifts two words as one."""
    low = materialize((words & np.uint32(0x7FFF)).astype(jnp.uint16))
    high = materialize(((words[: size // 2] >> 16) & np.uint32(0x7FFF)).astype(jnp.uint16))
    draws, below = [*low, *high], jnp.uint16(0)
    for start in range(0, size, _BITS):
        bits = jnp.uint16(0)
        for order in range(start, min(start + _BITS, size)):
            bits = (bits << 1) | ((draws[order] - edges(order)) >> 15)
        below = materialize(below + lax.population_count(bits))
    return below


def _number_below_in_pairs(words: Array, size: int, table: Array) -> Array:
    """`number_below` of an even number of draws with thresholds [M, L] that are the same for all.

    Both draws of a word are compared at once: with bit 15 of each half set, x - T keeps it where x >= T, and nothing is
    borrowed from the other half. That is three instructions where draws of 16 bits take two, but nothing is narrowed.
    """
    edges = table.astype(jnp.uint32)
    edges, guard, at_least = materialize(edges | (edges << 16)), np.uint32(0x80008000), jnp.uint32(0)
    for start in range(0, size // 2, _BITS):
        bits = jnp.uint32(0)
        for word in words[start : min(start + _BITS, size // 2)]:
            bits = ((bits >> 1) & ~guard) | (((word | guard) - edges) & guard)
        at_least = materialize(at_least + lax.population_count(bits))
    return (np.uint32(size) - at_least).astype(jnp.uint16)


def counts(table: Array, words: Array, group_size: int) -> Array:
    """How many of the group's draws fell into each cell: [M, L] int16, adding up to G. table: `thresholds`."""
    few = 0 < table.shape[0] <= _FEW_THRESHOLDS and group_size <= 2 * _WORDS_TOGETHER
    if few and group_size % 2 == 0:
        return between(_number_below_in_pairs(words, group_size, table), group_size)
    return between(number_below(words, group_size, lambda _: table), group_size)


def between(below: Array, size: int) -> Array:
    """Counts [M, L] int16 of the cells, from the number of the `size` draws [M - 1, L] below each inner threshold."""
    edges = jnp.zeros((below.shape[0] + 2, below.shape[1]), jnp.uint16)
    edges = lax.dynamic_update_slice_in_dim(edges, below, 1, 0)
    edges = lax.dynamic_update_index_in_dim(edges, jnp.full(below.shape[1], size, jnp.uint16), below.shape[0] + 1, 0)
    edges = lax.bitcast_convert_type(edges, jnp.int16)
    return edges[1:] - edges[:-1]


def inverted_binomial(odds: Array, word: Array, increments: Array) -> Array:
    """sum_{j < n} increments[j] with n ~ Binomial(G, odds / (1 + odds)), drawn by inversion.

    With partial sums F_j = sum_{i <= j} C(G, i) odds^i, n is the number of j with F_j <= u (1 + odds)^G. `odds` <= 1,
    so that the rarer outcome is counted. Each cumulative probability is right to (4 G + 1) 2^-24: the 24 bits of u, and
    the rounding of G multiplications and additions in the power and in the sums.

    odds: [L]. word: [L]. increments: [G].
    """
    dtype, size = odds.dtype, increments.shape[0]
    whole = jnp.ones_like(odds)
    for bit in bin(size)[2:]:
        whole = whole * whole * (odds + 1) if bit == "1" else whole * whole
    level = materialize(as_float(word >> 8, dtype) * dtype.type(2.0**-24) * whole)
    power, partial, result = jnp.ones_like(odds), jnp.ones_like(odds), jnp.zeros_like(odds)
    for j in range(size):
        result = result + jnp.where(level >= partial, increments[j], dtype.type(0))
        power = power * odds
        partial = partial + dtype.type(comb(size, j + 1)) * power
    return result
