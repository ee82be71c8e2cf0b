"""Instability islands, long blocks, argument principle. The maps themselves: test_every_convention.py."""

import numpy as np
import pytest

from bandit_lab.theory.block_map import LinearLoop, ones_complement, reduce_matrix
from bandit_lab.theory.stability import (
    eigenvalues,
    first_unstable_learning_rate,
    first_unstable_refresh_interval,
    islands,
    multipliers,
    spectral_radius,
    unstable_intervals,
    unstable_roots,
)

RNG = np.random.default_rng(7)
FRESH = RNG.normal(size=(3, 3)) * 0.1 + np.diag([1.0, 0.6, 0.3])
STALE = RNG.normal(size=(3, 3)) * 0.2 + np.diag([0.5, 0.2, 0.4])


def test_batched_maps_equal_single_maps():
    for model in ("refresh", "lag", "pipeline", "random"):
        loop = LinearLoop(FRESH, STALE, 0.8, model)
        rates = np.array([0.1, 0.4])
        for i, rate in enumerate(rates):
            np.testing.assert_array_equal(loop.map(rates, 3)[i], loop.map(rate, 3))


def test_instability_islands_in_the_refresh_interval():
    loop = LinearLoop(0.01, 0.008, 0.9)
    assert islands(loop, 1.0, 400) == [(30, 43)]
    assert first_unstable_refresh_interval(loop, 1.0, 400)[:2] == (30.0, "flip")
    defect = LinearLoop(0.01, 0.008, 0.9, "pipeline")
    assert islands(defect, 1.0, 400) != [(30, 43)]


@pytest.mark.parametrize(("rho", "stable"), [(0.5, True), (0.98, True), (1.05, False)])
def test_long_blocks_flip_exactly_when_stale_exceeds_fresh(rho, stable):
    loop = LinearLoop(0.05, 0.05 * rho, 0.0)
    top = multipliers(loop, 1.0, 4000)[0]
    assert top == pytest.approx(-rho, rel=1e-6)
    assert (first_unstable_refresh_interval(loop, 1.0, 2000).value is None) == stable


def test_purely_fresh_loop_has_no_threshold_in_the_interval():
    loop = LinearLoop(FRESH @ FRESH.T, np.zeros((3, 3)), 0.5)
    assert first_unstable_refresh_interval(loop, 0.1, 1024).value is None
    frozen = LinearLoop(np.zeros((3, 3)), FRESH @ FRESH.T, 0.5)
    assert first_unstable_refresh_interval(frozen, 0.1, 1024).value is not None


@pytest.mark.parametrize("convention", ["heavy_ball", "nesterov"])
def test_argument_principle_counts_the_eigenvalues_outside(convention):
    loop = LinearLoop(FRESH, 3 * STALE, 0.6, "lag", convention)
    for rate in (0.02, 0.1, 0.4, 1.0):
        for lag in (0, 1, 3, 10):
            outside = int((np.abs(multipliers(loop, rate, lag)) > 1).sum())
            assert unstable_roots(loop, rate, lag) == outside, (rate, lag)
    flags = unstable_intervals(loop, 0.1, 12)
    assert list(flags) == [spectral_radius(loop, 0.1, lag) >= 1 for lag in range(13)]


def test_repelling_fixed_point_is_named_not_scanned():
    threshold = first_unstable_learning_rate(LinearLoop(0.1, -0.2), 4)
    assert (threshold.value, threshold.bifurcation) == (0.0, None)
    assert "repels" in threshold.reason


def test_overflow_beyond_threshold_is_an_infinite_radius():
    assert spectral_radius(LinearLoop(1.0, 1.0), 1e6, 1000) == np.inf


def test_projection_removes_the_direction_that_does_not_matter():
    basis = ones_complement(5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(np.ones(5) @ basis, 0, atol=1e-14)
    policy = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    matrix = np.diag(policy) - np.outer(policy, policy)
    full, small = np.linalg.eigvalsh(matrix), np.linalg.eigvalsh(reduce_matrix(matrix))
    np.testing.assert_allclose(full[1:], small, atol=1e-14)
    assert eigenvalues(reduce_matrix(matrix))[0] == pytest.approx(full[-1])


@pytest.mark.parametrize(
    ("keywords", "name"),
    [({"momentum": 1.0}, "momentum"), ({"model": "none"}, "staleness"), ({"stale": np.zeros((2, 2))}, "stale")],
)  # fmt: skip
def test_bad_loops_are_named(keywords, name):
    with pytest.raises(ValueError, match=name):
        LinearLoop(**({"fresh": 0.1, "stale": 0.1} | keywords))
    with pytest.raises(ValueError, match="refresh_interval"):
        LinearLoop(0.1, 0.1).map(0.1, 0)
