"""Counts of a group: every marginal exact, draws of a group independent up to what is stated, inversion exact.

What can be enumerated is: the dither (its 2^16 values) and the uniform of the inversion (2^24 values). The rest is
chi-square over 2^20 lanes with real words; false alarm 1e-6 each unless said.
"""

from itertools import product
from math import comb, factorial, prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from settings import thinned

from bandit_lab.simulation.fast.multinomial import (
    LARGEST_INVERTED,
    counts,
    draws_and_dither,
    inverted_binomial,
    shift_of,
    threshold,
    thresholds,
    words_for_counting,
)
from bandit_lab.simulation.fast.random_bits import GENERATORS, lane_keys

LANES = 2**20
FALSE_ALARM = 1e-6


def words(count: int, seed: int, step: int = 0, rng: str = "hash", lanes: int = LANES):
    root = jax.random.key_data(jax.random.key(seed))
    keys = lane_keys(root, jnp.zeros(lanes, jnp.uint32), jnp.arange(lanes, dtype=jnp.uint32))
    return GENERATORS[rng].random_bits(keys, jnp.uint32(step), count)


@jax.jit
def _all_dithers(level):
    every = jnp.arange(2**16, dtype=jnp.uint32)
    return threshold(jnp.full(2**16, level, jnp.float32), shift_of(every, np.dtype("float32")))


@pytest.mark.parametrize("chance", [1e-6, 3.3e-5, 2**-15, 0.1, 1 / 3, 0.5, 0.87654, 1 - 1e-5])
def test_dithered_thresholds_are_right_on_average_and_almost_independent(chance):
    """Over all 2^16 dithers: mean of T within 2^-16 + 2^-23 of 2^15 c (one dither, float32); variance f (1 - f), 2^-8.

    Above 2^14 a float32 holds eight or nine bits behind the point: that share of the dithers may round either way.
    """
    level = np.float32(chance * 2**15)
    table = np.asarray(_all_dithers(level), np.float64)
    fraction = float(level) - np.floor(float(level))
    tolerance = 2**-16 + 2**-23 * float(level)
    assert table.mean() == pytest.approx(float(level), abs=tolerance)
    assert table.var() == pytest.approx(fraction * (1 - fraction), abs=2**-8)
    assert np.ptp(table) <= 2
    if abs(fraction - np.round(fraction)) > tolerance:  # the planted defect: thresholds that are not dithered
        assert float(np.round(level)) != pytest.approx(float(level), abs=tolerance)


def drawn_counts(policy, size, seed, rng="hash", chances=None):
    """Counts [M, LANES] of one group per lane."""
    generator = GENERATORS[rng]
    weights = jnp.broadcast_to(jnp.asarray(policy, jnp.float32)[:, None], (len(policy), LANES)) * 0.7
    reached = jnp.ones((len(policy), 1)) if chances is None else jnp.cumsum(jnp.asarray(chances, jnp.float32), axis=1)

    @jax.jit
    def draw(block):
        group, dither = draws_and_dither(block, size)
        table = thresholds(weights, jnp.sum(weights, 0), reached.astype(jnp.float32), dither)
        return counts(table, group, size)

    return np.asarray(draw(words(words_for_counting(size, generator.expensive), seed, rng=rng)), np.int64)


def multinomial_chances(cells, size):
    """(every vector of counts [n, M], its probability [n]) of a multinomial."""
    every = np.array([n for n in product(range(size + 1), repeat=len(cells)) if sum(n) == size])
    ways = np.array([factorial(size) / prod(map(factorial, n)) for n in every.tolist()])
    return every, ways * np.prod(np.asarray(cells) ** every, axis=1)


def chi_square(drawn, every, chance):
    """p-value of the joint law of counts [M, L]; rare vectors pooled, impossible ones must not occur (p = 0)."""
    base = (every.sum(1).max() + 1) ** np.arange(every.shape[1])
    seen = np.bincount(base @ drawn, minlength=(every @ base).max() + 1)[every @ base]
    assert seen.sum() == drawn.shape[1]
    if seen[chance == 0].any():
        return 0.0
    common = chance * drawn.shape[1] >= 10
    observed, expected = (np.append(x[common], x[~common].sum()) for x in (seen, chance * drawn.shape[1]))
    likely = expected > 0
    return stats.chisquare(observed[likely], expected[likely] * observed.sum() / expected[likely].sum()).pvalue


GROUPS = [((0.3, 0.7), 2), ((0.3, 0.7), 5), ((0.2, 0.5, 0.3), 4), ((0.9, 0.07, 0.02, 0.01), 3)]


@pytest.mark.parametrize(("group", "rng"), thinned(GROUPS, GENERATORS))
def test_joint_law_of_the_counts_is_multinomial(group, rng):
    """Chi-square over all count vectors, n = 2^20 groups, seed 1. A policy that is 3 % off is rejected."""
    policy, size = group
    drawn = drawn_counts(policy, size, seed=1, rng=rng)
    assert np.all(drawn.sum(0) == size)
    assert chi_square(drawn, *multinomial_chances(policy, size)) > FALSE_ALARM
    wrong = np.array(policy) * np.linspace(1.03, 0.97, len(policy))
    assert chi_square(drawn, *multinomial_chances(wrong / wrong.sum(), size)) < FALSE_ALARM


def test_cells_of_arm_and_reward():
    """Two arms with Bernoulli rewards, one of them never paying: four cells, the impossible one stays empty."""
    chances = np.array([[0.25, 0.75], [1.0, 0.0]])
    drawn = drawn_counts((0.4, 0.6), 4, seed=2, chances=chances)
    assert np.all(drawn[3] == 0)
    assert chi_square(drawn[:3], *multinomial_chances((0.1, 0.3, 0.6), 4)) > FALSE_ALARM


def test_rare_arms_are_drawn_at_their_rate():
    """Arms of 1e-6, 1e-5, 1e-4: totals over 2^20 groups of 64 are Poisson, |z| <= 5 (false alarm 6e-7), seed 3.

    Without dither an arm of 1e-6 never occurs: expected 67 times, which |z| <= 5 tells from none.
    """
    policy = (1e-6, 0.6, 1e-5, 1e-4, 1 - 0.6 - 1.11e-4)
    totals = drawn_counts(policy, 64, seed=3).sum(1)
    expected = np.array(policy) * 64 * LANES
    assert np.all(np.abs(totals - expected)[[0, 2, 3]] <= 5 * np.sqrt(expected)[[0, 2, 3]])
    assert expected[0] > 5 * np.sqrt(expected[0])


def test_covariance_of_counts_in_a_group():
    """Cov(n_i, n_j) = -G p_i p_j and Var(n_i) = G p_i (1 - p_i): 2^20 groups of 64, |z| <= 5, seed 4.

    Draws that shared more than the dither would show: reusing each draw twice doubles the variance.
    """
    size, policy = 64, np.array([0.15, 0.05, 0.5, 0.3])
    drawn = drawn_counts(policy, size, seed=4).astype(float)
    expected = size * (np.diag(policy) - np.outer(policy, policy))

    def worst(sample, size):
        centred = sample - sample.mean(1, keepdims=True)
        z = []
        for i in range(4):
            for j in range(i + 1):
                products = centred[i] * centred[j]
                z.append((products.mean() - expected[i, j]) / (products.std() / np.sqrt(products.size)))
        return np.max(np.abs(z))

    assert worst(drawn, size) <= 5
    twice = 2 * drawn_counts(policy, size // 2, seed=5).astype(float)
    assert worst(twice, size) > 5


@pytest.mark.parametrize(("size", "odds"), [(8, 1.0), (8, 0.3), (8, 1e-3), (5, 0.7), (32, 0.9), (2, 1e-6)])
def test_inversion_is_the_binomial_law_for_every_uniform(size, odds):
    """All 2^24 uniforms: each probability within twice the stated (4 G + 1) 2^-24 of a cumulative one.

    With the odds off by 1e-3 of themselves (a planted defect at common odds) it is not.
    """
    assert size <= LARGEST_INVERTED

    @jax.jit
    def law(odds):
        every = jnp.arange(2**24, dtype=jnp.uint32) << 8
        n = inverted_binomial(jnp.full(2**24, odds, jnp.float32), every, jnp.ones(size, jnp.float32))
        return jnp.bincount(n.astype(jnp.int32), length=size + 1)

    def exact(odds):
        p = odds / (1 + odds)
        return np.array([comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)])

    tolerance = 2 * (4 * size + 1) * 2**-24
    drawn_shares = np.asarray(law(np.float32(odds)), float) / 2**24
    assert np.max(np.abs(drawn_shares - exact(float(np.float32(odds))))) <= tolerance
    if odds >= 0.3:
        assert np.max(np.abs(drawn_shares - exact(odds * 1.001))) > tolerance
