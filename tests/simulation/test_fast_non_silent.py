"""Groups that are not silent, drawn in counts: the law by enumeration. Runs with them: test_fast_path.py.

Chi-square over LANES groups with real words; false alarm 1e-6 each.
"""

from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner, thinned
from test_fast_draws import FALSE_ALARM, chi_square, multinomial_chances

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.simulation import run
from bandit_lab.simulation.fast.multinomial import counts, draws_and_dither, thresholds, words_for_counting
from bandit_lab.simulation.fast.non_silent import (
    _value_and_place,
    chance_of_silence,
    inverted_non_silent,
    non_silent_counts,
    words_for_non_silent,
)
from bandit_lab.simulation.fast.program import Program
from bandit_lab.simulation.fast.random_bits import GENERATORS, lane_keys

LANES = 2**18
BERNOULLI_2 = (((0.35, 0.65), ((0.1, 0.9), (0.7, 0.3))), ())
BERNOULLI_3 = (((0.2, 0.5, 0.3), ((0.8, 0.2), (1.0, 0.0), (0.4, 0.6))), ())
FIXED_3 = (((0.2, 0.5, 0.3), ((1.0,), (1.0,), (1.0,))), ((0,), (1,), (2,)))
SHARED_3 = (((0.2, 0.5, 0.3), ((1.0,), (1.0,), (1.0,))), ((0, 2), (1,)))
THREE_VALUES = (((0.45, 0.55), ((0.1, 0.6, 0.3), (0.2, 0.0, 0.8))), ())


def drawn(setting, size, seed, non_silent=True):
    """Counts [M, LANES], conditional or not."""
    (policy, chances), classes = setting
    chances = jnp.asarray(chances, jnp.float32)
    program = Program("sampled", 1, LANES, LANES, 1, chances.shape[1], classes, True, False, False, False, "hash")
    keys = lane_keys(
        jax.random.key_data(jax.random.key(seed)), jnp.zeros(LANES, jnp.uint32), jnp.arange(LANES, dtype=jnp.uint32)
    )
    weights = jnp.broadcast_to(jnp.asarray(policy, jnp.float32)[:, None] * 0.7, (len(policy), LANES))
    total, reached = jnp.sum(weights, axis=0), jnp.cumsum(chances, axis=1)

    @jax.jit
    def draw():
        if non_silent:
            words = GENERATORS["hash"].random_bits(keys, jnp.uint32(0), words_for_non_silent(size))
            return non_silent_counts(program, weights, total, chances, reached, words, size)
        words, dither = draws_and_dither(
            GENERATORS["hash"].random_bits(keys, jnp.uint32(0), words_for_counting(size, False)), size
        )
        return counts(thresholds(weights, total, reached, dither), words, size)

    return np.asarray(draw(), np.int64)


def value_of_cells(setting):
    (policy, chances), classes = setting
    if classes:
        return np.array([next(i for i, arms in enumerate(classes) if arm in arms) for arm in range(len(policy))])
    return np.tile(np.arange(len(chances[0])), len(policy))


def p_value(table, setting, size):
    """Chi-square of the joint law of counts given that at least two values occur."""
    (policy, chances), _ = setting
    every, chance = multinomial_chances((np.array(policy)[:, None] * np.array(chances)).ravel(), size)
    values = value_of_cells(setting)
    alive = np.array([len({v for v, k in zip(values, n, strict=True) if k}) > 1 for n in every])
    return chi_square(table, every, np.where(alive, chance, 0) / chance[alive].sum())


JOINT = {
    "bernoulli, 2 arms": BERNOULLI_2,
    "bernoulli, 3 arms": BERNOULLI_3,
    "fixed": FIXED_3,
    "shared reward": SHARED_3,
    "three values": THREE_VALUES,
}


@pytest.mark.parametrize(("name", "size"), thinned(JOINT, [2, 3, 4]))
def test_joint_law_of_the_counts(name, size):
    """n = 2^18 groups, seed 1. Rejected: the same draw without the condition, and a policy that is 5 % off."""
    setting = JOINT[name]
    counts = drawn(setting, size, seed=1)
    assert np.all(counts.sum(0) == size)
    assert p_value(counts, setting, size) > FALSE_ALARM
    assert p_value(drawn(setting, size, seed=1, non_silent=False), setting, size) == 0
    (policy, chances), classes = setting
    other = np.array(policy) * np.linspace(1.05, 0.95, len(policy))
    assert p_value(counts, ((tuple(other / other.sum()), chances), classes), size) < FALSE_ALARM


@pytest.mark.parametrize("size", [8, 33])
def test_close_to_a_vertex(size):
    """Policies (1 - 1e-5, 1e-5) and three arms with 1e-5, 2e-5: the other draw is one of them at its share.

    Chance of two others: below G 3e-5 to first order, counted within 5 standard errors of Poisson; n = 2^18, seed 2.
    """
    policy = np.array((1 - 3e-5, 1e-5, 2e-5))
    setting = ((tuple(policy), ((1.0,), (1.0,), (1.0,))), ((0,), (1,), (2,)))
    counts = drawn(setting, size, seed=2)
    assert np.all(np.max(counts, axis=0) < size)
    several = int(np.sum(counts[0] < size - 1))
    expected = LANES * (size - 1) / 2 * 3e-5
    assert abs(several - expected) <= 5 * np.sqrt(expected)
    share = np.mean(counts[1] >= 1)
    assert abs(share - 1 / 3) <= 5 * np.sqrt(2 / 9 / LANES) + 1e-4


def test_at_a_vertex_a_group_is_silent():
    for setting in (
        (((1.0, 2.0**-118), ((1.0,), (1.0,))), ((0,), (1,))),
        (((0.4, 0.6), ((0.0, 1.0), (0.0, 1.0))), ()),
    ):
        counts = drawn(setting, 6, seed=3)
        values = value_of_cells(setting)
        per_value = np.array([counts[values == v].sum(0) for v in range(2)])
        assert np.all(per_value.max(0) == 6)
    assert 0.35 < np.mean(counts[1]) / 6 < 0.45  # arms are drawn as ever where the reward is always the same
    increments, words = jnp.ones(6), jnp.arange(8, dtype=jnp.uint32) << 29
    assert np.all(np.asarray(inverted_non_silent(jnp.full(8, 2.0**-118), words, increments)) == 0)


@pytest.mark.parametrize(("size", "odds"), [(2, 0.3), (3, 1.0), (8, 0.3), (8, 1e-5), (8, 2.0**-100), (32, 0.9)])
def test_inversion_is_the_conditional_law_for_every_uniform(size, odds):
    """All 2^23 uniforms: each probability within 2 (4 G + 1) 2^-23. The unconditional law is not that close."""

    @jax.jit
    def law(odds):
        every = jnp.arange(2**23, dtype=jnp.uint32) << 9
        n = inverted_non_silent(jnp.full(2**23, odds, jnp.float32), every, jnp.ones(size, jnp.float32))
        return jnp.bincount(n.astype(jnp.int32), length=size + 1)

    binomial = np.array([comb(size, k) * float(odds) ** k for k in range(size + 1)])
    exact = np.where((np.arange(size + 1) % size) == 0, 0, binomial)
    drawn_shares = np.asarray(law(np.float32(odds)), float) / 2**23
    tolerance = 2 * (4 * size + 1) * 2**-23
    assert drawn_shares[0] == drawn_shares[size] == 0
    assert np.max(np.abs(drawn_shares - exact / exact.sum())) <= tolerance
    if odds < 0.5:
        assert np.max(np.abs(drawn_shares - binomial / binomial.sum())) > tolerance


def test_chance_of_silence():
    law = np.array([[0.2, 0.999], [0.8, 0.001]])
    for size in (2, 3, 8, 13, 64):
        np.testing.assert_allclose(chance_of_silence(jnp.asarray(law), size), (law**size).sum(0), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "trained",
    [
        learner("dapo", two_arm((0.9, 0.3)), group_size=4),
        learner("dapo", k_arm((0.2, 0.5, 0.5, 0.8), kind="fixed"), group_size=4, prompts=2),
    ],
)
def test_silent_groups_are_counted_as_on_the_reference_path(trained):
    """Share of them in the last half of 20 steps, 2^12 seeds, seed 1: |z| <= 5 (false alarm 6e-7)."""
    options = {"steps": 20, "seeds": 2**12, "seed": 1}
    shares = [
        run(trained, "sampled", cells(0.1, 0.8, 1, 0.3), path=path, **options).summary.tail_silent[0].astype(float)
        for path in ("fast", "reference")
    ]
    error = np.sqrt(sum(x.var() for x in shares) / 2**12)
    assert abs(shares[0].mean() - shares[1].mean()) <= 5 * error


@pytest.mark.parametrize("size", [4, 64])
def test_the_last_draw_that_differs_is_one_of_the_group(size):
    """J < G, also for the largest uniform number; G - 1 itself is seen."""
    law = jnp.asarray(np.random.default_rng(0).dirichlet([1, 1, 0.3], 1000).T, jnp.float32)
    half, largest = jnp.full(1000, 0.5, jnp.float32), jnp.full(1000, 1 - 2.0**-24, jnp.float32)
    _, place, _ = jax.jit(lambda *words: _value_and_place(law, size, *words))(half, largest)
    assert place.max() == size - 1


@pytest.mark.parametrize("size", [8, 96])
def test_the_place_of_the_first_draw_that_differs_has_its_law(size):
    """Of 2^16 uniforms: each share within 2 of them. The law of another policy is not that close."""
    every = (jnp.arange(2**16, dtype=jnp.float32) + 0.5) / 2**16
    law = jnp.broadcast_to(jnp.array([[0.9], [0.1]], jnp.float32), (2, 2**16))
    value, place, _ = jax.jit(lambda u: _value_and_place(law, size, 0 * u, u))(every)
    assert np.all(value == 0)
    seen = np.bincount(place, minlength=size) / 2**16
    for chance, near in ((0.9, True), (0.89, False)):
        powers = chance ** np.arange(size - 1)
        assert (np.max(np.abs(seen[1:] - powers / powers.sum())) <= 2 / 2**16) == near
