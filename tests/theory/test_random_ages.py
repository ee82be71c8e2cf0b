"""Random ages: thresholds of the average drift and of the mean square, each against an independent witness."""

import numpy as np
import pytest

from bandit_lab.theory.oscillator import poles
from bandit_lab.theory.random_ages import (
    averaged_threshold,
    geometric_weights,
    mean_square_threshold,
)
from bandit_lab.theory.thresholds import exact


def test_asynchrony_begets_momentum():
    for mean in (0.5, 2.0, 9.0):
        q = mean / (1 + mean)
        assert averaged_threshold(mean, 0.0).kappa == pytest.approx(exact("refresh", 1, q, "ema").kappa, rel=1e-12)
        assert abs(poles(averaged_threshold(mean, 0.0).kappa, q, "ema")[0]) == pytest.approx(1.0, abs=1e-10)
    assert averaged_threshold(9.0, 0.0).kappa == pytest.approx(38.0)


def test_mean_square_closed_form_at_zero_momentum():
    for mean in (0.0, 0.3, 1.0, 9.0):
        q, kappa = mean / (1 + mean), mean_square_threshold(mean, 0.0)
        assert q * kappa**2 + kappa * (1 - q) ** 2 / 2 == pytest.approx(1 - q**2, rel=1e-12)
        nearly = mean_square_threshold(mean, 1e-9)
        assert nearly == pytest.approx(kappa, rel=1e-6)
        assert mean == 0 or kappa < averaged_threshold(mean, 0.0).kappa
    assert kappa == pytest.approx(0.4567, abs=5e-5)


def test_growth_of_the_second_moment_by_drawing():
    """20,000 chains x 12 steps, seed 3: E x^2 within 5 standard errors of the moment operator; false alarm 1e-6.

    Planted: ages one longer are rejected.
    """
    mean, kappa, chains, steps = 1.0, 0.8, 20_000, 12
    weights, rng = geometric_weights(mean, 12), np.random.default_rng(3)
    predicted = []
    for law in (weights, np.concatenate([[0.0], weights])):
        moment, values = np.ones((len(law), len(law))), []
        for _ in range(steps):
            shift = np.eye(len(law), k=-1)
            shift[0, 0] = 1.0
            mean_map = shift - kappa * np.outer(np.eye(len(law))[0], law)
            kick = kappa**2 * (law @ np.diag(moment) - law @ moment @ law)
            moment = mean_map @ moment @ mean_map.T
            moment[0, 0] += kick
            values.append(moment[0, 0])
        predicted.append(values[-1])
    history = np.ones((chains, 13))
    for _ in range(steps):
        age = rng.choice(13, p=weights, size=chains)
        new = history[:, 0] - kappa * history[np.arange(chains), age]
        history = np.column_stack([new, history[:, :-1]])
    square = history[:, 0] ** 2
    error = 5 * square.std() / np.sqrt(chains)
    assert abs(square.mean() - predicted[0]) < error
    assert abs(square.mean() - predicted[1]) > error


def test_geometric_weights():
    for tail in ("redraw", "clip"):
        assert geometric_weights(3.0, 20, tail).sum() == pytest.approx(1.0, rel=1e-14)
    assert np.arange(400) @ geometric_weights(3.0, 399) == pytest.approx(3.0, rel=1e-10)
    np.testing.assert_array_equal(geometric_weights(0.0, 2), [1.0, 0.0, 0.0])
