"""The block map against stepwise simulation with matrices, instability islands, random ages, argument principle."""

import numpy as np
import pytest

from bandit_lab.theory.block_map import LinearLoop, ones_complement, reduce_matrix
from bandit_lab.theory.discrete import poles
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


def simulate(loop, rate, interval, steps, start):
    """Plain simulation; the rollout policy before time 0 is the start."""
    path, velocity = [np.asarray(start, float)], np.zeros(loop.size)
    scale = 1 - loop.momentum if loop.convention == "ema" else 1.0
    for t in range(steps):
        block = t - t % max(interval, 1)
        source = {"refresh": block, "lag": t - interval, "pipeline": block - interval}[loop.model]
        push = -rate * scale * (loop.fresh @ path[-1] + loop.stale @ path[max(source, 0)])
        velocity = loop.momentum * velocity + push
        path.append(path[-1] + (push + loop.momentum * velocity if loop.convention == "nesterov" else velocity))
    return np.array(path), velocity


@pytest.mark.parametrize("convention", ["heavy_ball", "ema", "nesterov"])
@pytest.mark.parametrize("model", ["refresh", "lag", "pipeline"])
@pytest.mark.parametrize("interval", [1, 2, 5])
def test_map_is_the_simulation(model, convention, interval):
    loop = LinearLoop(FRESH, STALE, 0.8, model, convention)
    matrix, n, start = loop.map(0.2, interval), 3, np.array([1.0, -0.5, 0.3])
    state = np.zeros(matrix.shape[0])
    state[:n] = start
    for k in range(2 * n, matrix.shape[0], n):
        state[k : k + n] = start
    maps = 6
    path, velocity = simulate(loop, 0.2, interval, maps * loop.steps_per_map(interval), start)
    for _ in range(maps):
        state = matrix @ state
    np.testing.assert_allclose(state[:n], path[-1], rtol=1e-11, atol=1e-13)
    if convention == "nesterov" or model != "lag":
        np.testing.assert_allclose(state[n : 2 * n], velocity, rtol=1e-11, atol=1e-13)


def test_batched_maps_equal_single_maps():
    for model in ("refresh", "lag", "pipeline", "random"):
        loop = LinearLoop(FRESH, STALE, 0.8, model)
        rates = np.array([0.1, 0.4])
        for i, rate in enumerate(rates):
            np.testing.assert_array_equal(loop.map(rates, 3)[i], loop.map(rate, 3))


def test_on_policy_fresh_loop_has_the_two_poles():
    for convention in ("heavy_ball", "ema", "nesterov"):
        loop = LinearLoop(2.0, 0.0, 0.7, "lag", convention)
        found = multipliers(loop, 0.3, 0)
        np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(poles(0.6, 0.7, convention)), rtol=1e-12)


def test_scalar_mixed_formula():
    """M = A^N - rho (1 - A^N) e_x e_x^T with A the fresh step, rho = stale over fresh."""
    mu, fresh, rho, n = 0.9, 0.01, 0.8, 17
    one = np.array([[1 - fresh, mu], [-fresh, mu]])
    power = np.linalg.matrix_power(one, n)
    expected = power - rho * (np.eye(2) - power) @ np.diag([1.0, 0.0])
    np.testing.assert_allclose(LinearLoop(fresh, rho * fresh, mu).map(1.0, n), expected, atol=1e-14)


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


def test_matrices_that_commute_reduce_to_their_largest_stiffness():
    values, basis = np.array([0.2, 0.5, 1.3]), np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    loop = LinearLoop(np.zeros((3, 3)), basis @ np.diag(values) @ basis.T, 0.9)
    one = first_unstable_learning_rate(LinearLoop(0.0, 1.3, 0.9), 8)
    found = first_unstable_learning_rate(loop, 8)
    assert found.value == pytest.approx(one.value, rel=1e-11)
    assert found.bifurcation == one.bifurcation


@pytest.mark.parametrize("convention", ["heavy_ball", "nesterov"])
def test_argument_principle_counts_the_eigenvalues_outside(convention):
    loop = LinearLoop(FRESH, 3 * STALE, 0.6, "lag", convention)
    for rate in (0.02, 0.1, 0.4, 1.0):
        for lag in (0, 1, 3, 10):
            outside = int((np.abs(multipliers(loop, rate, lag)) > 1).sum())
            assert unstable_roots(loop, rate, lag) == outside, (rate, lag)
    flags = unstable_intervals(loop, 0.1, 12)
    assert list(flags) == [spectral_radius(loop, 0.1, lag) >= 1 for lag in range(13)]


def test_age_averaged_random_staleness_is_ema_momentum_at_zero_momentum():
    for mean in (0.0, 1.0, 9.0):
        q = mean / (1 + mean)
        random = multipliers(LinearLoop(0.0, 1.0, 0.0, "random"), 0.3, mean)
        ema = poles(0.3, q, "ema")
        np.testing.assert_allclose(np.sort(np.abs(random))[-2:], np.sort(np.abs(ema)), rtol=1e-10, atol=1e-12)


def test_per_step_radius():
    loop = LinearLoop(0.0, 1.0, 0.5)
    assert spectral_radius(loop, 0.05, 4, per_step=True) == pytest.approx(spectral_radius(loop, 0.05, 4) ** 0.25)


def test_repelling_fixed_point_is_named_not_scanned():
    found = first_unstable_learning_rate(LinearLoop(0.1, -0.2), 4)
    assert (found.value, found.bifurcation) == (0.0, None)
    assert "repels" in found.reason


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
    [({"momentum": 1.0}, "momentum"), ({"model": "none"}, "staleness"), ({"convention": "adam"}, "convention"),
     ({"stale": np.zeros((2, 2))}, "stale"), ({"fresh": np.nan}, "fresh")],
)  # fmt: skip
def test_bad_loops_are_named(keywords, name):
    with pytest.raises(ValueError, match=name):
        LinearLoop(**({"fresh": 0.1, "stale": 0.1} | keywords))
    with pytest.raises(ValueError, match="refresh_interval"):
        LinearLoop(0.1, 0.1).map(0.1, 0)
