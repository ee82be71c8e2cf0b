"""Comparisons that are counted sixteen at a time, and thresholds whose sums are taken in parts, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.simulation.fast.multinomial import counts, number_below, running_sum, thresholds

LANES = 256


def some_words(count, seed):
    return np.random.default_rng(seed).integers(0, 2**32, (count, LANES), dtype=np.uint32)


def draws_in(words, size):
    """Draws [size, L] in any order: those of a word are its bits 0..14 and 16..30."""
    return np.concatenate([words & 0x7FFF, (words[: size // 2] >> 16) & 0x7FFF])


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 32, 33, 63, 64, 65, 128, 129, 1000])
def test_all_draws_below_a_threshold_are_counted(size):
    """Also at the ends: no draw lies below 0, all lie below 2^15. More than 64 draws take a loop over blocks."""
    words = some_words((size + 1) // 2, size)
    edges = np.random.default_rng(1).integers(0, 2**15 + 1, (5, LANES)).astype(np.uint16)
    edges[0], edges[4] = 0, 2**15
    counted = jax.jit(lambda words, edges: number_below(words, size, lambda _: edges))(words, edges)
    expected = (draws_in(words, size) < edges[:, None].astype(int)).sum(1)
    np.testing.assert_array_equal(counted, expected)
    assert np.all(expected[0] == 0)
    assert np.all(expected[4] == size)


@pytest.mark.parametrize("size", [7, 64, 150])
def test_every_draw_is_compared_with_its_own_threshold(size):
    """Draw number n against n * 2^15 / size: by counting the draws of every n once, in whatever order they come."""
    words = some_words((size + 1) // 2, size)
    words[:] = words[:, :1]  # the same draws in all lanes; lane l picks out draw l
    orders = np.arange(LANES) % size

    def edges(order):
        return jnp.where(orders == order, 2**15, 0).astype(jnp.uint16)

    assert np.all(np.asarray(jax.jit(lambda words: number_below(words, size, edges))(words)) == 1)


@pytest.mark.parametrize("size", [2, 6, 32, 34, 62, 63, 64, 66])
@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_counts_with_few_thresholds_are_those_with_many(size, number):
    """Up to four thresholds, both draws of a word are compared at once. The outer thresholds reach both ends."""
    words = some_words(size // 2 + size % 2, size)
    edges = np.sort(np.random.default_rng(2).integers(0, 2**15 + 1, (number, LANES)), axis=0)
    edges[0, ::3], edges[-1, ::4] = 0, 2**15
    below = (draws_in(words, size) < edges[:, None]).sum(1)
    counted = jax.jit(lambda table, words: counts(table, words, size))(edges.astype(np.uint16), words)
    np.testing.assert_array_equal(counted, np.diff(below, axis=0, prepend=0, append=size))


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 17, 64, 130])
def test_a_running_sum_is_numpys(rows):
    values = np.random.default_rng(rows).integers(0, 9, (rows, 3)).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(running_sum)(values), np.cumsum(np.vstack([0 * values[:1], values]), 0))


@pytest.mark.parametrize("arms", [2, 3, 7, 8, 12, 61, 64, 130])
@pytest.mark.parametrize("columns", [1, 2])
def test_thresholds_are_dithered_cumulative_probabilities_in_order(arms, columns):
    """floor(2^15 c + U) with c from float64: equal unless 2^15 c + U is a whole number to float32 rounding. In order
    also where arms have next to no weight; else a cell would be counted -1 times."""
    rng = np.random.default_rng(arms)
    weights = np.exp(-rng.exponential(20, (arms, LANES))).clip(2.0**-120).astype(np.float32)
    reached = np.cumsum(rng.dirichlet(np.ones(columns), arms), 1).astype(np.float32)
    reached[:, -1] = 1
    dither = rng.integers(0, 2**16, LANES, dtype=np.uint32)
    total = weights.astype(float).sum(0)
    table = np.asarray(jax.jit(thresholds)(weights, total.astype(np.float32), reached, dither), float)
    assert table.shape == (arms * columns - 1, LANES)
    assert np.all(np.diff(table, axis=0) >= 0)
    assert table.max() <= 2**15
    below = np.cumsum(weights.astype(float), 0) - weights
    level = ((below[:, None] + weights[:, None] * reached[:, :, None].astype(float)) / total).reshape(-1, LANES)[:-1]
    level = 2**15 * level + dither * 2.0**-16
    rounding = arms * 2**15 * 2.0**-24 + 2.0**-8
    clear = np.abs(level - np.round(level)) > rounding
    assert clear.mean() > 0.25  # the check is not empty
    np.testing.assert_array_equal(table[clear], np.minimum(np.floor(level[clear]), 2**15))
    drawn = np.asarray(counts(jnp.asarray(table, jnp.uint16), jnp.asarray(some_words(8, 2)), 16))
    assert drawn.min() >= 0
    assert np.all(drawn.sum(0) == 16)
