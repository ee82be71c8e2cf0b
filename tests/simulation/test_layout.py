"""Chunks as wide as an accelerator wants them: the same runs as in narrow ones, and moments of the same units."""

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.simulation import pool, run
from bandit_lab.simulation.fast import serve
from bandit_lab.simulation.fast.layout import lanes_for
from bandit_lab.simulation.one_kernel import one_kernel_enabled

GRID = cells([0.05, 0.4, 0.1], [0.0, 0.9, 0.5], [1, 2, 5], [1.0, 0.5, 1.0])


LEARNERS = [learner(group_size=6), learner(bandit=two_arm((1.0, 0.0)), group_size=6)]


@pytest.mark.parametrize("trained", LEARNERS)
def test_wide_chunks_hold_the_runs_of_narrow_ones(trained, monkeypatch):
    """As on an accelerator (wide, not one kernel) against the CPU's layout: every run and the moments of every unit, up
    to rounding. Runs whose places were mixed up would differ by their noise, a thousand times more."""
    options = {"steps": 6, "seeds": 5000, "first_seed": 0, "seed": 2, "path": "fast"}
    narrow = run(trained, "sampled", GRID, **options)
    monkeypatch.setattr(serve, "lanes_for", lambda platform, *kind: lanes_for("gpu", *kind))
    with one_kernel_enabled(False):
        wide = run(trained, "sampled", GRID, **options)
    for one, other in zip(narrow.summary, wide.summary, strict=True):
        same = np.isclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
        assert same.mean() > 0.999  # a rounding error may move a draw across its threshold
    np.testing.assert_array_equal(narrow.moments.seeds, wide.moments.seeds)
    np.testing.assert_allclose(narrow.moments.mean, wide.moments.mean, rtol=3e-5)
    np.testing.assert_allclose(pool([wide.moments])[1], narrow.reward_variance, rtol=1e-3, atol=1e-12)
    assert np.std(narrow.summary.tail_mean[1]) > 1e-3
