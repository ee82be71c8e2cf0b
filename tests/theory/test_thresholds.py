"""Exact thresholds against the eigenvalues of the block map, limits, bounds, reference values."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from bandit_lab.theory import thresholds
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.stability import first_oscillating_learning_rate, first_unstable_learning_rate
from bandit_lab.theory.thresholds import exact, leading_order, mean_age_law, oscillation_onset

MODELS = ("refresh", "lag", "pipeline")
INTERVALS = (1, 2, 3, 4, 8, 16, 32, 64)
MOMENTA = (0.0, 0.3, 0.5, 0.9, 0.95, 0.99)


def ratio(model, interval, momentum):
    return exact(model, interval, momentum).kappa * interval / (1 - momentum)


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("model", MODELS)
def test_closed_forms_match_bisected_eigenvalues(model, momentum):
    for interval in INTERVALS:
        loop = LinearLoop(0.0, 1.0, momentum, model)
        threshold, expected = first_unstable_learning_rate(loop, interval, 24), exact(model, interval, momentum)
        assert threshold.value == pytest.approx(expected.kappa, rel=1e-10), interval
        assert threshold.bifurcation == expected.bifurcation
        onset = first_oscillating_learning_rate(loop, interval, 24)
        assert onset.value == pytest.approx(oscillation_onset(model, interval, momentum), rel=1e-10), interval


def test_reference_values():
    reference = {
        ("refresh", 2, 0.9): 4.2222, ("refresh", 8, 0.9): 2.7087, ("refresh", 64, 0.95): 3.8777,
        ("lag", 2, 0.9): 1.025, ("pipeline", 2, 0.9): 0.8328, ("pipeline", 8, 0.9): 0.8181,
        ("pipeline", 8, 0.99): 0.7103, ("pipeline", 16, 0.99): 0.7094, ("pipeline", 64, 0.99): 0.7686,
    }  # fmt: skip
    for setting, value in reference.items():
        assert ratio(*setting) == pytest.approx(value, abs=5.1e-5), setting


def test_refresh_special_cases():
    for mu in MOMENTA:
        assert exact("refresh", 1, mu) == (pytest.approx(2 * (1 + mu), rel=1e-13), "flip")
        assert oscillation_onset("refresh", 1, mu) == pytest.approx((1 - math.sqrt(mu)) ** 2, rel=1e-12)
        assert exact("refresh", 100_000, mu).kappa * 100_000 / (1 - mu) == pytest.approx(2.0, rel=3e-3)
        assert exact("lag", 1, mu).kappa == pytest.approx(1 - mu, rel=1e-12)
        assert exact("lag", 0, mu) == exact("refresh", 1, mu)
        assert exact("pipeline", 1, mu).kappa == pytest.approx(exact("lag", 1, mu).kappa, rel=1e-12)
        assert oscillation_onset("pipeline", 1, mu) == pytest.approx(oscillation_onset("lag", 1, mu), rel=1e-12)
    for n in INTERVALS:
        assert exact("refresh", n, 0.0).kappa == pytest.approx(2 / n, rel=1e-14)
        assert exact("lag", n, 0.0).kappa == pytest.approx(2 * math.sin(math.pi / (2 * (2 * n + 1))), rel=1e-12)
        assert exact("pipeline", n, 0.0).kappa == pytest.approx(1 / n, rel=1e-12)
        assert oscillation_onset("pipeline", n, 0.0) == pytest.approx(1 / (4 * n), rel=1e-12)


def test_lag_onset_closed_form():
    for mu in MOMENTA:
        for tau in (1, 2, 5, 40):
            root = math.sqrt((tau * (1 + mu)) ** 2 - 4 * (tau * tau - 1) * mu)
            z = (tau * (1 + mu) + root) / (2 * (tau + 1))
            assert oscillation_onset("lag", tau, mu) == pytest.approx(z ** (tau - 1) * (1 - z) * (z - mu), rel=1e-9)


def test_bounds_of_the_ratio_to_the_law():
    grid = np.concatenate([np.linspace(0, 0.98, 50), [0.99, 0.995, 0.999]])
    for mu in grid:
        for n in (2, 3, 5, 8, 20, 64, 300):
            assert 2 - 1e-9 <= ratio("refresh", n, mu) <= 5.68
            assert 2 / 3 < ratio("pipeline", n, mu) <= 1 + 1e-9
        for n in (1, 2, 3, 8, 64, 300):
            assert 1 - 1e-9 <= ratio("lag", n, mu) < math.pi / 2
    best = minimize_scalar(lambda mu: -ratio("refresh", 2, mu), bounds=(0.4, 0.7), options={"xatol": 1e-9})
    assert best.x == pytest.approx(0.5437, abs=1e-4)
    assert -best.fun == pytest.approx(5.68, abs=5e-3)


def test_underdamped_limits():
    for n in (2, 3, 8):
        assert ratio("refresh", n, 1 - 1e-5) == pytest.approx(2 * n / (n - 1), rel=1e-3)
        assert ratio("lag", n, 1 - 1e-5) == pytest.approx(1.0, rel=1e-3)
        assert ratio("pipeline", n, 1 - 1e-5) == pytest.approx(2 * n / (3 * n - 1), rel=1e-3)
        for model in MODELS:
            assert exact(model, n, 1 - 1e-5).kappa == pytest.approx(mean_age_law(model, n, 1 - 1e-5), rel=1e-3)
    assert ratio("lag", 3000, 0.0) == pytest.approx(math.pi / 2, rel=1e-3)


def test_large_interval_law_is_the_onset_of_oscillation_for_refresh():
    for mu in (0.0, 0.5, 0.9):
        n = 4_000_000
        assert oscillation_onset("refresh", n, mu) / leading_order(n, mu) == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(("refresh", 0, 0.5), "refresh_interval"), (("lag", 1, 1.0), "momentum"), (("lag", 1, 0.5, "adam"), "convention")],
)  # fmt: skip
def test_bad_settings_are_named(arguments, name):
    for function in (thresholds.exact, thresholds.oscillation_onset):
        with pytest.raises(ValueError, match=name):
            function(*arguments)
