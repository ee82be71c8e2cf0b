"""Comparing errors on the same runs: planted differences are found, equal methods are not told apart."""

import numpy as np
import pytest

from experiments.grading.backtest import compare


def test_a_method_that_halves_every_error_is_found_and_the_best_other_is_the_yardstick():
    base = np.abs(np.random.default_rng(1).normal(size=40))
    found = compare(base / 2, {"same": base, "worse": 3 * base})
    assert found.ratio == pytest.approx(0.5)
    assert found.ratio_interval[0] <= 0.5 <= found.ratio_interval[1] < 1
    assert found.smaller["same"][:2] == (40, 40)
    assert found.smaller["same"][2] < 1e-9
    assert compare(3 * base, {"same": base, "worse": 9 * base}).ratio == pytest.approx(3)


def test_equal_methods_are_not_told_apart():
    """600 sets of 35 runs, two methods alike: the sign test says p < 0.05 in at most 5 % of them (+ 4 sigma: 0.086),

    and the 95 % of resampled ratios hold 1 in at least 90 % (- 4 sigma: 0.85). A planted factor of 2 is seen in most.
    """
    rng = np.random.default_rng(2)
    alarms, holds, seen = 0, 0, 0
    for _ in range(600):
        mine, their = np.abs(rng.normal(size=(2, 35)))
        found = compare(mine, {"other": their}, resamples=200)
        alarms += found.smaller["other"][2] < 0.05
        holds += found.ratio_interval[0] <= 1 <= found.ratio_interval[1]
        seen += compare(mine, {"other": 2 * their}, resamples=2).smaller["other"][2] < 0.05
    assert alarms / 600 < 0.086
    assert holds / 600 > 0.85
    assert seen / 600 > 0.4


def test_ties_and_runs_without_a_number_count_for_nothing():
    found = compare([1.0, 2.0, np.nan, 3.0], {"a": [1.0, 2.0, 3.0, np.nan], "b": [2.0, 1.0, 1.0, 1.0]})
    assert found.smaller["a"] == (0, 0, 1.0)
    assert found.smaller["b"][:2] == (1, 2)
    with pytest.raises(ValueError, match="runs"):
        compare([1.0], {"a": [2.0]})
    with pytest.raises(ValueError, match="others"):
        compare([1.0, 2.0], {})
