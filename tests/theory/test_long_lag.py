"""Long lags without their matrix: against the dense step map, in every convention, with one mode and with several."""

import numpy as np
import pytest

from bandit_lab.theory import long_lag
from bandit_lab.theory.block_map import LinearLoop
from bandit_lab.theory.fluctuation import correlation, spectrum
from bandit_lab.theory.stability import (
    eigenvalues,
    first_oscillating_learning_rate,
    first_unstable_learning_rate,
    multipliers,
)
from bandit_lab.theory.stationary import stationary_covariance

NOISE = np.array([[0.7, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.9]])
HILL = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, 0.05], [0.0, 0.05, 0.4]])
PULL = np.array([0.5, -0.1, 0.3])
LOOPS = {
    "stale": (LinearLoop(0.0, 0.3, 0.9, "lag"), 40),
    "no momentum": (LinearLoop(0.1, 0.2, 0.0, "lag"), 30),
    "mostly fresh, ema": (LinearLoop(0.3, -0.1, 0.5, "lag", "ema"), 24),
    "nesterov": (LinearLoop(0.1, 0.2, 0.8, "lag", "nesterov"), 30),
    "modes": (LinearLoop(np.zeros((3, 3)), HILL, 0.5, "lag"), 12),
    "mixed modes": (LinearLoop(HILL, HILL @ HILL, 0.5, "lag"), 12),
    "importance ratios": (LinearLoop(HILL, np.outer(PULL, PULL), 0.9, "lag"), 12),
}
every = pytest.mark.parametrize(("loop", "lag"), LOOPS.values(), ids=LOOPS)


@pytest.fixture
def long(monkeypatch):
    """Every lag counts as a long one."""
    monkeypatch.setattr(long_lag, "LARGEST_MATRIX", 0)


def answers(loop, lag):
    """Both learning rates, and at half the first one multipliers, covariance, correlation and spectrum."""
    rates = first_unstable_learning_rate(loop, lag), first_oscillating_learning_rate(loop, lag)
    rate, noise, direction = 0.5 * rates[0].value, NOISE[: loop.size, : loop.size], np.ones(loop.size)
    found = correlation(loop, rate, lag, noise, direction, 20)
    return (
        rates,
        multipliers(loop, rate, lag),
        stationary_covariance(loop, rate, lag, noise).average,
        found,
        spectrum(loop, rate, lag, noise, direction, np.array([0.0, 0.1, 2.0])),
    )


@every
def test_the_answers_are_those_of_the_dense_map(loop, lag, monkeypatch):
    """Declared: 1e-10 for the onset (a double root), 1e-11 for the threshold and what is averaged over the circle."""
    (first, rings), roots, covariance, together, density = answers(loop, lag)
    monkeypatch.setattr(long_lag, "LARGEST_MATRIX", 0)
    (first_too, rings_too), roots_too, covariance_too, together_too, density_too = answers(loop, lag)
    assert first_too.value == pytest.approx(first.value, rel=1e-11)
    assert rings_too.value == pytest.approx(rings.value, rel=1e-10)
    assert (first_too.bifurcation, rings_too.bifurcation) == (first.bifurcation, rings.bifurcation)
    assert roots_too.shape == roots.shape
    clear = np.abs(roots_too) > 0.1  # where many are 0 the dense map finds up to 0.04
    np.testing.assert_allclose(np.abs(roots_too[clear]), np.abs(roots[clear]), rtol=1e-10)
    np.testing.assert_allclose(np.abs(roots_too[:6]), np.abs(roots[:6]), rtol=1e-12)
    np.testing.assert_allclose(covariance_too, covariance, rtol=1e-11, atol=1e-13)
    scale = together.autocovariance[0]
    np.testing.assert_allclose(together_too.autocovariance / scale, together.autocovariance / scale, atol=1e-11)
    assert together_too.integrated_time == pytest.approx(together.integrated_time, rel=1e-9)
    assert together_too.decay_time == pytest.approx(together.decay_time, rel=1e-10)
    np.testing.assert_allclose(density_too, density, rtol=1e-9)


def test_the_next_lag_has_other_multipliers():
    """The planted defect: an age that is off by one is seen at the tolerance above."""
    loop, lag = LOOPS["stale"]
    found = long_lag.multipliers(loop, 0.003, lag + 1)
    assert np.max(np.abs(np.abs(found[:6]) - np.abs(eigenvalues(loop.map(0.003, lag))[:6]))) > 1e-4


@pytest.mark.usefixtures("long")
@every
def test_the_dominant_multiplier_is_a_root_where_two_have_met(loop, lag):
    """At the onset, a double root: the largest modulus is that of the dense map to 1e-6."""
    rate = first_oscillating_learning_rate(loop, lag).value
    near = long_lag.multipliers(loop, 0.99 * rate, lag)
    again = long_lag.multipliers(loop, rate, lag, near)  # None where two that are not the largest have met
    for found in (multipliers(loop, rate, lag), *([] if again is None else [again])):
        assert abs(found[0]) == pytest.approx(abs(eigenvalues(loop.map(rate, lag))[0]), abs=1e-6)


def test_beyond_the_threshold_and_nothing_stale():
    """No stationary state where it grows; a loop without a stale part is left to the dense map."""
    found = stationary_covariance(LinearLoop(0.0, 0.3, 0.9, "lag"), 0.05, 400, np.eye(1))
    assert found.average is None
    assert "beyond the stability threshold" in found.reason
    fresh = LinearLoop(0.3, 0.0, 0.5, "lag")
    assert long_lag.multipliers(fresh, 0.1, 200) is None
    assert multipliers(fresh, 0.1, 200)[0] == pytest.approx(multipliers(fresh, 0.1, 0)[0])
    assert first_unstable_learning_rate(fresh, 200).value == pytest.approx(first_unstable_learning_rate(fresh, 0).value)
