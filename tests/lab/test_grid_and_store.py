"""Axes of a sweep, and the memory that it asks for."""

import math

import numpy as np

from bandit_lab.app.settings.config import SweepSettings
from bandit_lab.lab.sweep import jobs, plan


def axis(spec, name="learning_rate", **default):
    return plan.axis(f"sweep.{name}", name, spec, default)


def test_list_is_sorted_without_duplicates():
    np.testing.assert_array_equal(axis([0.3, 0.1, 0.3]), [0.1, 0.3])


def test_log_range_has_equal_ratios():
    values = axis({"start": 0.1, "stop": 10, "num": 5, "scale": "log"})
    np.testing.assert_allclose(values[1:] / values[:-1], np.sqrt(10.0), rtol=1e-12)


def test_refresh_intervals_are_whole():
    values = axis({"start": 1, "stop": 64, "num": 13, "scale": "log"}, "refresh_interval")
    assert values.dtype == np.int64
    assert values[0] == 1
    assert values[-1] == 64
    assert len(np.unique(values)) == len(values)


def test_coarse_choice_is_part_of_the_grid():
    chosen = plan._log_spaced_choice(np.arange(1, 65), 4)
    np.testing.assert_array_equal(chosen, [1, 4, 16, 64])


def test_range_of_learning_rates_holds_every_threshold():
    low, high = jobs._learning_rate_range([0.013, 27.1, math.nan, math.inf])
    assert low < 0.013
    assert high > 27.1


def test_memory_estimate_grows_with_what_is_asked_for():
    def need(**changes):
        return plan._bytes_needed(plan.prepare(SweepSettings(memory_limit=1e9, **changes), frozenset()))

    assert need(sweep={"learning_rate": {"num": 100_000}}) > 10 * need(sweep={"learning_rate": {"num": 1000}})
    assert need(steps=10**8) > 10 * need(steps=10**6)
    assert need(seeds=10**9) < 2 * need(seeds=10**6)  # a chunk's worth
