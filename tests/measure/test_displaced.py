"""Displaced runs in blocks whose lanes are refilled, and the search for a boundary with a rough and a good test."""

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.measure import (
    displaced,
    find_fixed_point,
    generic_direction,
    growth_rate,
    learning_rate_boundary,
    stack_bandits,
)
from bandit_lab.measure.boundary import first_crossing


def rates_of(trained, grid):
    point = find_fixed_point(trained, "mean_field", 1.0)
    theta = np.tile(point.theta, (len(grid.momentum), 1))
    return growth_rate(trained, "mean_field", grid, theta, generic_direction(point.basis), periods=20)


def mixed_cells(count):
    """Cells of very different lengths, so that lanes are refilled out of step."""
    rng = np.random.default_rng(0)
    rate = np.geomspace(0.02, 3, count)
    return cells(rate, rng.choice([0.0, 0.5, 0.9], count), rng.choice([1, 2, 8, 32], count))


@pytest.mark.parametrize("staleness", ["refresh", "lag"])
def test_refilled_lanes_have_the_bits_of_fresh_ones(staleness, monkeypatch):
    """600 cells through 256 lanes, by two threads or by one, against each cell of a sample alone."""
    trained, grid = learner("grpo", two_arm(), staleness, horizon=32), mixed_cells(600)
    monkeypatch.setattr(displaced, "THREADS", 2)
    together = rates_of(trained, grid)
    monkeypatch.setattr(displaced, "THREADS", 1)
    np.testing.assert_array_equal(rates_of(trained, grid), together)
    some = np.arange(7, 600, 97)
    alone = [rates_of(trained, type(grid)(*(column[i : i + 1] for column in grid)))[0] for i in some]
    np.testing.assert_array_equal(alone, together[some])


@pytest.mark.parametrize("staleness", ["refresh", "lag"])
def test_many_bandits_in_one_program_have_the_boundaries_of_each_alone(staleness):
    """Three bandits, each with its own setting and learning rates; in another order they have other boundaries."""
    rng, weights = np.random.default_rng(0), np.array([0.3, 1.0, 2.0])
    bandits = [k_arm(rng.uniform(0.1, 0.9, 3)) for _ in weights]
    trained = [learner("grpo", bandit, staleness, horizon=4) for bandit in bandits]
    points = [find_fixed_point(one, "mean_field", weight) for one, weight in zip(trained, weights, strict=True)]
    theta, along = np.stack([p.theta for p in points]), np.stack([generic_direction(p.basis) for p in points])
    settings = cells(1.0, [0.0, 0.5, 0.8], [1, 4, 2])._replace(kl_weight=weights)
    grid = np.array([[2.0], [1.0], [0.5]]) * np.geomspace(0.05, 50, 13)

    def boundary(order):
        many = stack_bandits([bandits[i] for i in order])
        return learning_rate_boundary(trained[0], "mean_field", settings, theta, along, grid, 40, many).value

    def alone(i):
        mine = type(settings)(*(column[i : i + 1] for column in settings))
        return learning_rate_boundary(trained[i], "mean_field", mine, theta[[i]], along[i], grid[i], 40).value[0]

    each, step = [alone(i) for i in range(3)], np.log(1000) / 12
    np.testing.assert_allclose(boundary([0, 1, 2]), each, rtol=step * 2.0**-13)  # to what a boundary is refined
    assert not np.allclose(boundary([1, 2, 0]), each, rtol=1e-2)


@pytest.mark.as_released
@pytest.mark.parametrize("group_size", [16, 64])
def test_finite_groups_run_alone_and_stacked(group_size):
    """The tables of a finite group inside of one kernel abort XLA:CPU, from about 64 members on."""
    trained = learner("grpo", two_arm(), "refresh", group_size=group_size, horizon=4)
    point = find_fixed_point(trained, "finite_group", 1.0)
    theta, along = np.tile(point.theta, (2, 1)), generic_direction(point.basis)
    setting, grid = cells(1.0, [0.0, 0.5], [1, 4]), np.geomspace(0.1, 40, 12)
    many = stack_bandits([two_arm()] * 2)
    alone, stacked = (
        learning_rate_boundary(trained, "finite_group", setting, theta, along, grid, 40, bandits).value
        for bandits in (None, many)
    )
    assert np.isfinite(alone).all()
    np.testing.assert_allclose(stacked, alone, rtol=1e-4)  # brackets are 2^-13 of a step of 0.54 in the logarithm


def test_rough_scan_finds_what_the_good_test_says():
    """The rough test is wrong for half a decade on either side; on its own it would miss every boundary."""
    true = np.array([0.03, 0.5, 7.0])
    calls = []

    def good(cells, theta_star):
        calls.append(len(theta_star))
        return np.log(cells.learning_rate / theta_star[:, 0]) ** 3

    def rough(cells, theta_star):
        off = np.where(np.arange(len(theta_star)) % 2, 3.0, 1 / 3.0)
        return np.log(cells.learning_rate / (off * theta_star[:, 0]))

    grid, three = np.geomspace(1e-3, 1e2, 51), cells([1.0, 1.0, 1.0])
    crossing = first_crossing(good, three, true[:, None], grid, rough=rough)
    np.testing.assert_allclose(crossing.value, true, rtol=1e-4)
    assert np.all((crossing.low <= true) & (true <= crossing.high))
    assert sum(calls) < 0.5 * 3 * (51 + 13 * 3)  # fewer good tests than by scanning with them
    wrong = first_crossing(rough, three, true[:, None], grid)
    assert np.max(np.abs(wrong.value / true - 1)) > 0.5


@pytest.mark.parametrize("rough", [None, "same"])
def test_bracket_is_as_narrow_as_asked_for(rough):
    """A test that jumps, is infinite or not a number beyond: nothing to take a secant of, the bracket still closes."""

    def test(cells, theta_star):
        return np.select([cells.learning_rate < 0.7, cells.learning_rate < 0.9], [-1e-9, np.inf], np.nan)

    crossing = first_crossing(test, cells([1.0]), np.zeros((1, 1)), [0.1, 0.5, 2.0], rough=test if rough else None)
    assert crossing.low[0] < 0.7 <= crossing.high[0]
    assert np.log(crossing.high[0] / crossing.low[0]) <= np.log(4) * 2.0**-13 * (1 + 1e-6)
