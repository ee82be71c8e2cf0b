"""Counts of a group instead of its actions.

A group of G enters the update only through n_m, how many of its draws fell into cell m (an arm with one of its reward
values). The draws are 15-bit integers x; n_m is the number of them in [T_{m-1}, T_m), counted by a subtraction and a
shift in 16 bits. The thresholds are dithered by one uniform U per group,

    T_m = floor(2^15 c_m + U),    E[T_m] = 2^15 c_m,    c_m the cumulative probability,

so that the chance of a cell is right to the rounding of c_m and of c_m + U in float32 (2^-23 c_m) and to the 16 bits
of U (2^-31): it is no multiple of 2^-15. What the dither costs is independence: two draws of one group share U, and
with f the fractional part of 2^15 c_m the covariance of "both below T_m" is f (1 - f) 2^-30 <= 2^-32. The variance of a
count grows by the factor 1 + (G - 1) cov / (p (1 - p)): by less than 1e-6 for a common cell, by at most (G - 1) 2^-15
for a cell rarer than 2^-15 (0.2 % at G = 64). Derived here.

With two cells the count of the rarer one is drawn by inverting the binomial distribution with one 24-bit uniform.
"""

from math import comb

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._barrier import computed_once
from bandit_lab._numerics import add_up
from bandit_lab._types import Array
from bandit_lab.simulate.fast.lanes import as_float

LARGEST_INVERTED = 32
"""Largest group whose binomial count is drawn by inversion: its terms stay far within float32."""
LARGEST_GROUP = 2**14
_SCALE = 2**15
_WORDS_OF_A_DITHER = 8
_WRITTEN_OUT = 2  # arms: for so few a loop costs more
_TOGETHER = 32  # draws compared in one expression: a longer reduction is not unrolled


def words_for_counting(group_size: int, dear: bool) -> int:
    """Words per group: one for two draws, and one for the dither unless words are dear and there are spare bits."""
    draws = (group_size + 1) // 2
    return draws if dear and draws >= _WORDS_OF_A_DITHER else draws + 1


def draws_and_dither(words: Array, group_size: int) -> tuple[Array, Array]:
    """(words [ceil(G/2), L] of the draws, word [L] whose low 16 bits are the dither).

    Without a word of its own the dither is put together from bits 15 and 31 of the first eight, which no draw uses.
    """
    draws = (group_size + 1) // 2
    if words.shape[0] > draws:
        return words[:draws], words[draws]
    bits = [((words[j] >> 15) & np.uint32(0x10001)) << np.uint32(j) for j in range(_WORDS_OF_A_DITHER)]
    both = computed_once(add_up(*bits))
    return words, both | (both >> np.uint32(8))


def shift_of(dither: Array, dtype) -> Array:
    """U + 1/2 from the low 16 bits of a word: the nearest integer to x + U + 1/2 is floor(x + U) + 1."""
    return computed_once(as_float(dither & np.uint32(0xFFFF), dtype) * dtype.type(2.0**-16) + dtype.type(0.5))


def threshold(level: Array, shift: Array) -> Array:
    """floor(level + U) as uint16, at most 2^15. level: in [0, 2^15] up to rounding. shift: `shift_of`.

    Adding 2^23 leaves the nearest integer in the low bits of a float32 (of no negative number: hence the 1 too many).
    """
    x = jnp.minimum(level + shift, level.dtype.type(_SCALE + 1))
    if x.dtype != jnp.float32:
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.uint16) - np.uint16(1)
    return lax.bitcast_convert_type(x + np.float32(2.0**23), jnp.uint32).astype(jnp.uint16) - np.uint16(1)


def thresholds(weights: Array, total: Array, reached: Array, dither: Array) -> Array:
    """T_0 .. T_M [K * columns + 1, L] of the cells (arm, reward), T_0 = 0 and T_M = 2^15.

    weights: [K, L] of the arms. total: [L], their sum. reached: [K, columns] cumulative chances of an arm's
    rewards. dither: [L] words.
    """
    dtype, (arms, lanes), columns = weights.dtype, weights.shape, reached.shape[1]
    shift = shift_of(dither, dtype)
    scale = computed_once(dtype.type(_SCALE) / total)
    if arms <= _WRITTEN_OUT:
        below = [add_up(*(weights[a] for a in range(arm))) if arm else jnp.zeros_like(total) for arm in range(arms)]
        levels = [below[a] + weights[a] * reached[a, c] for a in range(arms) for c in range(columns)]
        inside = [threshold(level * scale, shift) for level in levels[:-1]]
        edges = (jnp.full(lanes, edge, jnp.uint16) for edge in (0, _SCALE))
        return computed_once(jnp.stack([next(edges), *inside, next(edges)]))

    def one_arm(arm: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        below, table = carry
        weight = lax.dynamic_index_in_dim(weights, arm, 0, keepdims=False)
        for column in range(columns):
            share = 1 if column == columns - 1 else lax.dynamic_index_in_dim(reached[:, column], arm, 0, False)
            row = threshold((below + weight * share) * scale, shift)
            table = lax.dynamic_update_index_in_dim(table, row, arm * columns + column + 1, 0)
        return below + weight, table

    table = jnp.zeros((arms * columns + 1, lanes), jnp.uint16)
    table = lax.fori_loop(0, arms, one_arm, (jnp.zeros(lanes, dtype), table))[1]
    return lax.dynamic_update_index_in_dim(table, jnp.full(lanes, _SCALE, jnp.uint16), arms * columns, 0)


def draws_of(words: Array, group_size: int) -> list[Array]:
    """The G draws [., L] uint16 in parts, from words [ceil(G/2), L]: bits 0..14, then bits 16..30."""
    low = computed_once((words & np.uint32(0x7FFF)).astype(jnp.uint16))
    high = computed_once(((words >> 16) & np.uint32(0x7FFF)).astype(jnp.uint16))[: group_size // 2]
    return [half[start : start + _TOGETHER] for half in (low, high) for start in range(0, half.shape[0], _TOGETHER)]


def number_below(parts: list[Array], row: Array) -> Array:
    """How many draws lie below a threshold: row [..., L] -> [..., L] uint16."""
    return add_up(*(jnp.sum((part - row[..., None, :]) >> 15, axis=-2, dtype=jnp.uint16) for part in parts))


def counts(table: Array, words: Array, group_size: int) -> Array:
    """How many of the group's draws fell into each cell: [M, L] uint16, adding up to G. table: `thresholds`."""
    below = number_below(draws_of(words, group_size), table)
    return below[1:] - below[:-1]


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
    level = computed_once(as_float(word >> 8, dtype) * dtype.type(2.0**-24) * whole)
    power, partial, result = jnp.ones_like(odds), jnp.ones_like(odds), jnp.zeros_like(odds)
    for j in range(size):
        result = result + jnp.where(level >= partial, increments[j], dtype.type(0))
        power = power * odds
        partial = partial + dtype.type(comb(size, j + 1)) * power
    return result
