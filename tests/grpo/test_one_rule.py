"""An advantage is one function of values, shares and size: every way in which the package asks it gives the same."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.grpo import ADVANTAGES, GRPO, DrGRPO, Scaled, advantages, batch_advantages, drawn_advantages, is_silent
from bandit_lab.grpo.advantage.median import Median
from bandit_lab.grpo.advantage.none import NoBaseline

VALUES = jnp.array([-0.4, 0.1, 0.5, 1.3])
COUNTS = np.array([[3, 0, 0, 4], [1, 2, 1, 3], [0, 7, 0, 0], [2, 2, 2, 1], [0, 0, 7, 0]])
"""Groups of seven: a third of them silent, at values that are not exact in binary. 1/7 is not exact either."""
SIZE = 7
SHARES = jnp.asarray(COUNTS.T / SIZE)


RULES = {name: ADVANTAGES[name]() for name in ADVANTAGES}
RULES |= {
    "grpo, ddof 1": GRPO(ddof=1),
    "grpo, eps": GRPO(eps=0.2),
    "batch_std, ddof 1": ADVANTAGES["batch_std"](ddof=1),
}


def off(rule):
    """Largest difference between two ways to ask for the same advantages."""
    by_value = np.asarray(advantages(rule, VALUES[:, None], SHARES, SIZE))
    limit = np.asarray(advantages(rule, VALUES[:, None], SHARES, None))
    worst = 0.0
    for lane, counts in enumerate(COUNTS):
        order = np.random.default_rng(lane).permutation(np.repeat(np.arange(4), counts))
        rewards, alone = VALUES[order], advantages(rule, VALUES, SHARES[:, lane], None)
        drawn = np.asarray(drawn_advantages(rule, rewards[None])[0])
        beside = batch_advantages(rule, VALUES[:, None], SHARES[:, lane, None], SIZE)[order, 0]
        pairs = [(drawn, by_value[order, lane]), (drawn, beside), (limit[:, lane], alone)]
        if isinstance(rule, Scaled):
            silent, spread = jnp.asarray(np.count_nonzero(counts) == 1), rewards - rewards.mean()
            pairs += [(drawn, spread * rule.scale(rewards.var(), silent, SIZE))]
            pairs += [(limit[order, lane], spread * rule.scale(rewards.var(), silent, None))]
        worst = max([worst, *(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)])
    return worst


@dataclass(frozen=True)
class OtherNumber(GRPO):
    """Planted: `scale` is not what the advantages are made of."""

    def advantages(self, values, shares, size):
        return DrGRPO().advantages(values, shares, size)


class OtherLimit(DrGRPO):
    """Planted: the same in a finite group, not in an infinite one."""

    def advantages(self, values, shares, size):
        return super().advantages(values, shares, size) * (1.01 if size is None else 1)


class EachOnce(NoBaseline):
    """Planted: counts a value once however many rewards have it."""

    def advantages(self, values, shares, size):
        return values - jnp.mean(values, axis=0)


class AllTogether(NoBaseline):
    """Planted: adds up groups that stand side by side."""

    def advantages(self, values, shares, size):
        return values - jnp.sum(values * shares)


@pytest.mark.parametrize("name", RULES)
def test_drawn_counted_scaled_and_in_a_batch_are_one_rule(name):
    """Random orders, equal values, absent values, silent groups, groups side by side, to 1e-13."""
    assert off(RULES[name]) < 1e-13


@pytest.mark.parametrize("rule", [OtherNumber(), OtherLimit(), EachOnce(), AllTogether()])
def test_another_rule_is_seen(rule):
    assert off(rule) > 1e-3


@pytest.mark.parametrize("name", RULES)
def test_a_silent_group_has_no_centred_advantage_and_finite_derivatives(name):
    """Exactly 0 in the built-in rules, in either precision and with shares that are rounded."""
    rule = RULES[name]
    for dtype in (np.float32, np.float64):
        values, shares = VALUES.astype(dtype), jnp.asarray(COUNTS[2] / SIZE, dtype) * dtype(1 - 1e-6)
        values_of_all = advantages(rule, values, shares, None)
        assert values_of_all.dtype == dtype
        slope = jax.jacfwd(lambda p: advantages(rule, values, p, None))(shares)  # noqa: B023
        assert np.all(np.isfinite(slope))
        if rule.centred:
            drawn = drawn_advantages(rule, jnp.full((2, SIZE), 0.1, dtype))
            assert np.all(np.asarray(drawn) == 0)
            assert abs(float(values_of_all[1])) < 1e-5


def test_silence_is_one_distinct_value_whatever_the_shares_are_rounded_to():
    values, tiny = jnp.array([0.1, 0.1, 0.7]), 1e-300
    for shares, silent in (([0.3, 0.7, 0.0], True), ([0.3, 0.69, 0.0], True), ([0.0, 0.0, 1.0 + 1e-9], True),
                           ([0.3, 0.7, tiny], False), ([0.0, tiny, 1.0], False)):  # fmt: skip
        assert bool(is_silent(values, jnp.array(shares))) == silent
    of_groups = is_silent(VALUES[:, None], SHARES)
    np.testing.assert_array_equal(of_groups, np.count_nonzero(COUNTS, axis=1) == 1)


def test_the_median_of_every_small_group_is_numpys():
    """All groups of some sizes with up to three values: even ones split in half are where rounding would show.

    Planted: shares that are not brought back to counts, with 1/2 moved by one unit in the last place.
    """
    values, off = np.array([0.0, 0.3, 1.0]), 0
    for size in (1, 2, 3, 6, 10, 12):
        counts = np.array([(i, j, size - i - j) for i in range(size + 1) for j in range(size + 1 - i)])
        counts = np.resize(counts, (91, 3))  # one shape: compiled once
        expected = values[:, None] - np.array([np.median(np.repeat(values, row)) for row in counts])
        for dtype in (np.float32, np.float64):
            shares = jnp.asarray(counts.T, dtype) * dtype(1 / size)
            centred = Median().advantages(jnp.asarray(values, dtype)[:, None], shares, size)
            np.testing.assert_allclose(centred, expected, atol=1e-6)
            moved = Median().advantages(jnp.asarray(values, dtype)[:, None], shares * np.nextafter(dtype(1), 0), None)
            off += np.count_nonzero(np.abs(moved - expected) > 1e-3)
    assert off > 0


def test_the_median_of_a_law_is_its_middle():
    """Values in any order; a law that is split in half has the mean of the two in the middle."""
    values = jnp.array([1.0, 0.0, 0.4])
    for law, median in (
        ([0.5, 0.5, 0.0], 0.5),
        ([0.3, 0.3, 0.4], 0.4),
        ([0.6, 0.2, 0.2], 1.0),
        ([0.25, 0.5, 0.25], 0.2),
    ):
        np.testing.assert_allclose(Median().advantages(values, jnp.array(law), None), values - median, atol=1e-15)
