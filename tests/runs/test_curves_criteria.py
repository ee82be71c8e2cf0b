"""The numbers by which laws are chosen, mixed and carried ahead, each by a calculation of its own."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from simulated_curves import simulate

from bandit_lab.runs.fit import SHAPES, engine, fit_many
from bandit_lab.runs.forecast.forecast import CurvePrediction, ForecastSettings, predict_curve
from bandit_lab.runs.forecast.mixture import Component, weighted

LAWS = ("constant", "single_exponential", "softmax_law")
END = stats.norm.ppf(0.95)
"""Standard deviations from the centre of a normal to the ends of its 90 % interval."""


@pytest.mark.parametrize("points", [9, 30])
def test_aicc_counts_every_number_of_the_law_and_of_the_noise(points):
    """2 k n/(n - k - 1) - 2 ln L, k counted in the table of estimates, where two numbers follow from the others."""
    truth = simulate("single_exponential", 1, points, seed=1)
    for law, fit in fit_many(truth.time, truth.reward, LAWS)[0].laws.items():
        k = len(fit.parameters.keys() - {"initial", "tau_95"})
        expected = 2 * k * points / (points - k - 1) - 2 * fit.log_likelihood
        assert fit.aicc == pytest.approx(expected, rel=1e-12), law


@pytest.mark.parametrize(("law", "parameters"), [("constant", 1), ("single_exponential", 3), ("softmax_law", 4)])
def test_degrees_of_freedom_are_points_less_what_the_mean_is_made_of(law, parameters):
    """Plateau; amplitude and time constant as well; amplitude, start and speed as well. Robust weights count points;
    to within half a parameter, because those of the constant law are one round older."""
    truth = simulate("single_exponential", 2, 30, seed=1)
    surface = engine.fit(SHAPES[law], truth.time, truth.reward)
    np.testing.assert_allclose(surface.freedom, surface.weights.sum(axis=-1) - parameters, atol=0.5)


def test_akaike_weights_are_shares_of_the_likelihood():
    """Laws of equally many numbers: likelihoods of 6, 3 and 1."""
    scores = 7 - 2 * np.log([6.0, 3.0, 1.0])
    assert weighted(scores.tolist()) == pytest.approx([0.6, 0.3, 0.1])
    truth = simulate("single_exponential", 1, 20, seed=1)
    fit = fit_many(truth.time, truth.reward, LAWS)[0]
    laws = {law: replace(fit.laws[law], aicc=float(score)) for law, score in zip(LAWS, scores, strict=True)}
    assert list(replace(fit, laws=laws).weights.values()) == pytest.approx([0.6, 0.3, 0.1])


def _part(weight, centre, left, right):
    """A two-sided normal with standard deviations `left` and `right`."""
    return Component(weight, centre, centre - END * left, centre + END * right)


def _outlook(parts, **others):
    named, last = {str(place): part for place, part in enumerate(parts)}, _part(1.0, 0.0, 1.0, 1.0)
    numbers = {"now": last.centre, "spread": 1.0, "seen": 100.0, "ahead": 1.0, "first_step": 10.0, **others}
    return CurvePrediction(named, last, plateaus=named, arrivals=named, **numbers)


def _below(x, parts):
    """Probability of the mixture of (weight, centre, left, right) below x."""
    return sum(w * stats.norm.cdf((x - c) / (left if x < c else right)) for w, c, left, right in parts)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99])
def test_both_ends_of_a_mixture_s_interval_leave_half_of_the_rest(level):
    """Two laws of unequal weights and sides; the forecast is the median; closed form of the mixture."""
    laws = [(0.75, 1.0, 0.5, 2.0), (0.25, -3.0, 1.0, 0.25)]
    seen = _outlook([_part(*law) for law in laws])
    out = 0.5 * (1 - level)
    made = seen.forecast(ForecastSettings(drift=0.0, level=level))
    ends = [made.low, made.predicted, made.high]
    assert [_below(x, laws) for x in ends] == pytest.approx([out, 0.5, 1 - out], abs=1e-4)
    plateau, arrival = seen.plateau(level), seen.step_95(level)
    ends = [plateau.low, plateau.value, plateau.high]
    assert [_below(x, laws) for x in ends] == pytest.approx([out, 0.5, 1 - out], abs=1e-4)
    ends = np.log(np.array([arrival.low, arrival.value, arrival.high]) - 10)
    assert [_below(x, laws) for x in ends] == pytest.approx([out, 0.5, 1 - out], abs=1e-4)


@pytest.mark.parametrize("ahead", [0.25, 1.0, 4.0])
def test_the_variance_of_the_drift_grows_linearly_its_standard_deviation_as_the_root(ahead):
    """A random walk: variance 0.3^2 + (0.2 * 5)^2 h; one law, and the interval of the normal that it then is."""
    seen = _outlook([_part(1.0, 2.0, 0.3, 0.3)], spread=5.0, ahead=ahead)
    made = seen.forecast(ForecastSettings(drift=0.2))
    half = END * np.sqrt(0.3**2 + (0.2 * 5) ** 2 * ahead)
    assert (made.low, made.high) == pytest.approx((2 - half, 2 + half), rel=2e-4)


def test_steps_ahead_are_counted_in_steps_seen():
    """Seen 20 to 79, wanted 100 to 119: (109.5 - 79)/59 of what was seen, wherever the steps begin."""
    truth = simulate("single_exponential", 1, 60, seed=2)
    for first in (0, 20):
        seen = predict_curve(truth.time + first, truth.reward[0], np.arange(80.0, 100.0) + first, LAWS)
        assert seen.ahead == pytest.approx(30.5 / 59)
        assert seen.first_step == first
        assert seen.spread < seen.seen <= np.ptp(truth.reward[0])
