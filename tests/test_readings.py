"""Numbers that are read off curves, on curves whose numbers are known."""

import numpy as np
import pytest

from experiments.shared.readings import at_own_best, read_at, slope_within, time_ratios

TIME = np.linspace(0.0, 10.0, 4001)
LEVELS = np.array([0.1, 0.3, 0.5, 0.9])


def test_a_curve_run_at_half_the_speed_takes_twice_the_time_between_any_levels():
    slow, fast = (-np.expm1(-speed * TIME) for speed in (0.5, 1.0))
    np.testing.assert_allclose(time_ratios(TIME, slow, fast, LEVELS), 2.0, rtol=1e-5)
    late = -np.expm1(-np.maximum(TIME - 1, 0))  # a delay before the first level is in no ratio
    np.testing.assert_allclose(time_ratios(TIME, late, fast, LEVELS), 1.0, rtol=1e-5)
    assert np.isnan(time_ratios(TIME, 0.4 * fast, fast, LEVELS)[-1])


def test_curves_are_read_between_their_steps():
    curves = np.array([[0.0, 1.0, 4.0], [2.0, 2.0, 0.0]])
    read = read_at(curves, np.array([[0.5, 2.0], [1.0, 1.25]]))
    np.testing.assert_array_equal(read, [[0.5, 4.0], [2.0, 1.5]])


def test_the_slope_within_groups_ignores_their_levels():
    """Planted: groups whose levels fall with x, so that the slope over all points has the wrong sign."""
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 5)
    x = groups + rng.uniform(0, 0.5, groups.size)
    y = 0.7 * x - 5.0 * groups
    assert slope_within(groups, x, y) == pytest.approx(0.7, abs=1e-12)
    assert slope_within(np.zeros(groups.size), x, y) < 0


def test_options_are_compared_where_each_is_best():
    """Two options at three settings, four samples: the second is best at another setting than the first."""
    first = [[0.0, 0.0, 0.0, 0.0], [1.0, 3.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0]]
    second = [[4.0, 5.0, 4.0, 5.0], [0.0, 0.0, 0.0, 9.0], [2.0, 2.0, 2.0, 2.0]]
    best, above = at_own_best(np.array([[first, second]]))
    np.testing.assert_allclose(best, [[2.0, 4.5]])
    np.testing.assert_allclose(above.value, [[0.0, 2.5]])
    np.testing.assert_allclose(above.error, [[0.0, 0.5 / 2]])  # differences 3, 2, 3, 2: paired, not the spread of each
