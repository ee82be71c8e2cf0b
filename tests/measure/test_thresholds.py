"""Measured boundary and onset against the exact predictions, at every declared point. Tolerance declared: 1e-3."""

import numpy as np
import pytest
from scipy.optimize import brentq
from settings import INTERVALS, MODELS, MOMENTA, STUDY_SETTINGS, cells, learner, thinned

from bandit_lab.bandits import two_arm
from bandit_lab.measure import (
    find_fixed_point,
    generic_direction,
    growth_rate,
    learning_rate_boundary,
    learning_rate_onset,
    measure_stiffness,
    stiffest_mode,
)
from bandit_lab.theory import (
    BinarySignal,
    GroupLaw,
    LinearLoop,
    attracting_fixed_point,
    exact,
    oscillation_onset,
    stiffness_split,
)
from experiments.shared.measure.boundaries import RESOLUTION, first_overshoot

TOLERANCE = 1e-3
GRID = np.geomspace(1e-5, 1e2, 29)


def predicted_stiffness(name: str) -> float:
    """K from settings alone: the closed form of the theory room."""
    advantage, bandit = STUDY_SETTINGS[name]
    signal = BinarySignal(GroupLaw(advantage), tuple(np.asarray(bandit.law.means[0])))
    reference = np.exp(np.asarray(bandit.reference_log_policy[0]))
    point = attracting_fixed_point(signal, reference, 1.0)
    return float(stiffness_split(signal, point.policy, 1.0).spectrum()[0].real)


def measured(name: str, model: str):
    """(points (N, mu), boundary, onset) from simulation alone."""
    advantage, bandit = STUDY_SETTINGS[name]
    trained = learner(advantage, bandit, staleness=MODELS[model])
    point = find_fixed_point(trained, "mean_field", 1.0)
    points = [(n, mu) for n in INTERVALS for mu in MOMENTA if model != "C" or n >= 2]
    grid = cells(1.0, [mu for _, mu in points], [n for n, _ in points])
    theta = np.tile(point.theta, (len(points), 1))
    boundary = learning_rate_boundary(trained, "mean_field", grid, theta, generic_direction(point.basis), GRID)
    mode = stiffest_mode(measure_stiffness(trained, "mean_field", 1.0, point).relaxation_matrix, point.basis)
    onset = learning_rate_onset(trained, "mean_field", grid, theta, *mode, GRID)
    return points, boundary, onset


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model"), thinned(STUDY_SETTINGS, MODELS))
def test_measured_boundary_and_onset_are_the_exact_ones(name, model):
    """Planted: N off by one, and the leading-order law, are told apart from the exact threshold."""
    points, boundary, onset = measured(name, model)
    stiffness = predicted_stiffness(name)
    predicted = np.array([exact(MODELS[model], n, mu).kappa for n, mu in points]) / stiffness
    np.testing.assert_allclose(boundary.value, predicted, rtol=TOLERANCE)
    shifted = np.array([exact(MODELS[model], n + 1, mu).kappa for n, mu in points]) / stiffness
    law = np.array([(1 - mu) / n for n, mu in points]) / stiffness
    for planted in (shifted, law):
        assert np.max(np.abs(boundary.value / planted - 1)) > TOLERANCE
    predicted = np.array([oscillation_onset(MODELS[model], n, mu) for n, mu in points]) / stiffness
    np.testing.assert_allclose(onset.value, predicted, rtol=TOLERANCE)


def default_point(**options):
    trained = learner("grpo", two_arm(), **options)
    return trained, find_fixed_point(trained, "mean_field", 1.0)


def test_growth_rates_are_the_logs_of_the_multipliers():
    """One block at mu = 0 multiplies by 1 - kappa N: below the onset, between the two and beyond the threshold."""
    trained, point = default_point()
    kappa_n = np.array([0.98, 0.995, 1.99, 1.998, 2.002, 2.01])
    stiffness = predicted_stiffness("default")
    grid = cells(kappa_n / (8 * stiffness), 0.0, 8)
    rates = growth_rate(trained, "mean_field", grid, np.tile(point.theta, (6, 1)), generic_direction(point.basis))
    np.testing.assert_array_equal(np.sign(rates), [-1, -1, -1, -1, 1, 1])
    np.testing.assert_allclose(rates[3:5], np.log(np.abs(1 - kappa_n[3:5])) / 8, rtol=1e-3)


def test_a_grid_that_does_not_bracket_gives_nan():
    trained, point = default_point()
    direction = generic_direction(point.basis)
    for grid in ([1e-3, 2e-3], [50.0, 100.0]):
        boundary = learning_rate_boundary(trained, "mean_field", cells(1.0, 0.0, 8), point.theta[None], direction, grid)
        assert np.isnan(boundary.value[0])


def test_overshoot_is_seen_later_than_it_begins():
    """Its boundary is where the predicted overshoot within the same samples is its resolution, 1e-6."""
    trained, point = default_point()
    mode = stiffest_mode(measure_stiffness(trained, "mean_field", 1.0, point).relaxation_matrix, point.basis)
    grid, theta = cells(1.0, [0.9, 0.9], [4, 16]), np.tile(point.theta, (2, 1))
    onset = learning_rate_onset(trained, "mean_field", grid, theta, *mode, GRID).value
    overshoot = first_overshoot(trained, "mean_field", grid, theta, *mode, GRID).value
    assert np.all(overshoot > 1.01 * onset)
    stiffness = predicted_stiffness("default")

    def excess(rate: float, interval: int) -> float:
        block = LinearLoop(0.0, stiffness, 0.9, "refresh").map(rate, interval)
        path = [np.linalg.matrix_power(block, j)[0, 0] for j in range(21 + 20 // interval)]
        return -min(path) - RESOLUTION

    for seen, interval in zip(overshoot, (4, 16), strict=True):
        predicted = brentq(excess, 0.5 * seen, 1.2 * seen, args=(interval,))
        assert seen == pytest.approx(predicted, rel=TOLERANCE)
