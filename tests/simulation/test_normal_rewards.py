"""Normal rewards by their sums: normal numbers, chi-squares of every number of degrees of freedom, and independence.

Kolmogorov-Smirnov tests over 2^20 lanes with real words, seeds fixed, false alarm 1e-6 each.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from test_fast_draws import FALSE_ALARM, LANES, words

from bandit_lab.simulation.fast.normal_rewards import log_product, normal_numbers, with_rewards, words_for_rewards
from bandit_lab.simulation.fast.program import BanditTables, Job


def p_value(sample, law):
    """Of a Kolmogorov-Smirnov test; ties from the uniforms' 23 bits are far below its resolution of 1e-3."""
    return stats.kstest(np.asarray(sample, float), law.cdf).pvalue


def worst_correlation(one, other):
    """Largest |z| of correlations between the numbers, and between their squares."""
    pairs = [(one, other), (one**2, other**2), (one, other**2), (one**2, other)]
    return max(abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(len(x)) for x, y in pairs)


def test_normal_numbers_are_normal_and_independent():
    """Eight at a time, seed 1: each is normal; |z| <= 5 for all correlations of pairs (false alarm 7e-5 in all).

    Planted: numbers 1 % too large, and the larger one of each pair.
    """
    drawn = np.asarray(jax.jit(lambda block: normal_numbers(block, np.dtype("float32")))(words(8, seed=1)), float)
    assert min(p_value(row, stats.norm()) for row in drawn) > FALSE_ALARM
    assert max(worst_correlation(drawn[i], drawn[j]) for i in range(8) for j in range(i)) <= 5
    assert np.abs(drawn).max() < np.sqrt(2 * 24 * np.log(2)) + 1e-3
    assert p_value(1.01 * drawn[0], stats.norm()) < FALSE_ALARM
    assert p_value(np.where(np.abs(drawn[0]) > np.abs(drawn[4]), drawn[0], drawn[4]), stats.norm()) < FALSE_ALARM


def drawn_rewards(counts, stds, seed):
    """(mean of every arm's rewards [K, LANES], squares about them [LANES]) of groups with these counts [K]."""
    spreads = tuple(tuple(np.flatnonzero(np.array(stds) == s).tolist()) for s in np.unique(stds))
    arms, size = len(counts), sum(counts)
    column = [np.asarray(x, np.float32)[:, None] for x in (np.arange(arms), stds)]
    program, learner = SimpleNamespace(spreads=spreads), SimpleNamespace(group_size=size)
    job = Job(program, learner, BanditTables(column[0], *[None] * 6, stds=column[1]), None)

    @jax.jit
    def draw(block):
        whole = jnp.broadcast_to(jnp.asarray(counts, jnp.float32)[:, None], (arms, LANES))
        tables = with_rewards(job, whole, block).tables
        return tables.values, tables.squares

    values, squares = draw(words(words_for_rewards(arms, len(spreads), size), seed))
    return np.asarray(values, float), np.asarray(squares, float)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 16])
def test_squares_of_one_arm_are_chi_square(size):
    """G rewards of one arm: G - 1 degrees of freedom, none of them for a single reward. Seed 2. Planted: one more."""
    values, squares = drawn_rewards((0, size), (0.5, 0.5), 2)
    assert p_value((values[1] - 1) * np.sqrt(size) / 0.5, stats.norm()) > FALSE_ALARM
    if size == 1:
        assert np.all(squares == 0)
        return
    assert p_value(squares / 0.25, stats.chi2(size - 1)) > FALSE_ALARM
    assert p_value(squares / 0.25, stats.chi2(size)) < FALSE_ALARM
    assert worst_correlation(values[1], squares) <= 5


def test_arms_with_stds_of_their_own_keep_their_degrees_of_freedom():
    """Counts 4, 1, 0, 6, 3: mean, variance and third moment of .25 chi^2_3 + 1.44 chi^2_5 + .09 chi^2_2.

    |z| <= 5, seed 3. Planted: the same degrees of freedom with one std less.
    """
    counts, stds = (4, 1, 0, 6, 3), (0.5, 0.5, 0.3, 1.2, 0.3)
    values, squares = drawn_rewards(counts, stds, 3)

    def z(parts):
        cumulants = [sum(2 ** (n - 1) * (1, 1, 2)[n - 1] * f * s ** (2 * n) for s, f in parts) for n in (1, 2, 3)]
        away = squares - cumulants[0]
        influence = [away, away**2 - cumulants[1], away**3 - cumulants[2]]
        return max(abs(x.mean()) / (x.std() / np.sqrt(LANES)) for x in influence)

    assert z([(0.5, 3), (1.2, 5), (0.3, 2)]) <= 5 < z([(0.5, 3), (1.2, 5), (0.5, 2)])
    for arm, (count, std) in enumerate(zip(counts, stds, strict=True)):
        if count:
            assert p_value((values[arm] - arm) * np.sqrt(count) / std, stats.norm()) > FALSE_ALARM
    assert max(worst_correlation(values[i], values[j]) for i in range(5) for j in range(i)) <= 5
    assert max(worst_correlation(values[i], squares) for i in range(5)) <= 5


@pytest.mark.parametrize("count", [1, 3, 4, 12, 32, 80])
def test_uniforms_that_are_always_used_are_multiplied_as_the_others(count):
    """Those from `first` to `last`; where `sure` are known to be among them, they are not compared."""
    draw = np.random.default_rng(count)
    uniforms = draw.uniform(size=(count, 50)).astype(np.float32)
    for sure in {0, count // 2, count}:
        last = draw.integers(sure, count + 1, 50)
        expected = np.where(np.arange(count)[:, None] < last, np.log(uniforms.astype(float)), 0).sum(0)
        product = log_product(jnp.asarray(uniforms), jnp.zeros(50, jnp.float32), last.astype(np.float32), sure)
        np.testing.assert_allclose(product, expected, rtol=1e-6, atol=1e-6)
    first = draw.integers(0, count + 1, 50)
    expected = np.where(np.arange(count)[:, None] >= first, np.log(uniforms.astype(float)), 0).sum(0)
    product = log_product(jnp.asarray(uniforms), first.astype(np.float32), jnp.full(50, count, jnp.float32), 0)
    np.testing.assert_allclose(product, expected, rtol=1e-6, atol=1e-6)
