"""The orbit of period two beyond a flip, against iteration of the nonlinear block map step by step."""

import numpy as np
import pytest

from bandit_lab.theory import exact
from experiments.shared.theory.two_cycle import flip_slope, two_cycle


def skew(x: float) -> float:
    """A drift that falls through zero at 0, steeper on one side, flat far out."""
    return float(-x * np.exp(-0.3 * x - 0.2 * x * x))


@pytest.mark.parametrize(("interval", "momentum"), [(1, 0.0), (4, 0.0), (3, 0.5), (8, 0.5)])
def test_runs_settle_on_the_orbit_whatever_the_block_and_momentum(interval, momentum):
    orbit = two_cycle(skew, 0.0, 5.0)
    i = int(np.argmin(np.abs(orbit.ratio - 1.03)))
    assert abs(orbit.slope[i]) < 1
    threshold = exact("refresh", interval, momentum)
    assert threshold.bifurcation == "flip"
    rate, x, v = orbit.ratio[i] * threshold.kappa, 0.1, 0.0
    seen = []
    for _ in range(4000):
        force = skew(x)
        for _ in range(interval):
            v = momentum * v + force
            x += rate * v
        seen.append(x)
    assert sorted(seen[-2:]) == pytest.approx([orbit.low[i], orbit.high[i]], rel=1e-8)
    # planted defect: half a percent in the learning rate is another orbit
    j = int(np.argmin(np.abs(orbit.ratio - 1.035)))
    assert abs(orbit.amplitude[j] - orbit.amplitude[i]) > 1e-3


def test_it_begins_at_the_threshold_and_a_drift_that_rises_has_none():
    orbit = two_cycle(skew, 0.0, 5.0)
    assert orbit.ratio[0] == pytest.approx(1, abs=1e-3)
    assert np.all(orbit.ratio > 1 - 1e-9)
    with pytest.raises(ValueError, match="falls through zero"):
        two_cycle(lambda x: x, 0.0, 5.0)


def test_the_slope_at_the_flip_is_that_of_the_first_orbits():
    orbit = two_cycle(skew, 0.0, 5.0, 2000)
    near = np.polynomial.Polynomial.fit(orbit.amplitude[1:20] ** 2, orbit.ratio[1:20], 2)
    assert flip_slope(skew, 0.0) == pytest.approx(1 / near.deriv()(0.0), rel=1e-3)
    # a pull that grows faster than the distance: g = -x - x^3, orbit at ratio 1/(1 + A^2)
    assert flip_slope(lambda x: -x - x**3, 0.0) == pytest.approx(-1, rel=1e-9)
    with pytest.raises(ValueError, match="falls through zero"):
        flip_slope(lambda x: x, 0.0)
