"""The numbers by which laws are chosen, mixed and carried ahead, each by a calculation of its own."""

import pytest
from grpo_clinic.fitting import fit_curve
from simulated_curves import fitted, simulate

LAWS = ("constant", "single_exponential", "softmax_law")
"""Standard deviations from the centre of a normal to the ends of its 90 % interval."""


@pytest.mark.parametrize("points", [9, 30])
def test_aicc_counts_every_number_of_the_law_and_of_the_noise(points):
    """2 k n/(n - k - 1) - 2 ln L, k counted in the table of estimates, where two numbers follow from the others."""
    truth = simulate("single_exponential", 1, points, seed=1)
    for law, fit in fit_curve(truth.time, truth.reward[0], LAWS).laws.items():
        k = len(fit.parameters.keys() - {"initial", "tau_95"})
        expected = 2 * k * points / (points - k - 1) - 2 * fit.log_likelihood
        assert fit.aicc == pytest.approx(expected, rel=1e-12), law


@pytest.mark.parametrize(("law", "parameters"), [("constant", 1), ("single_exponential", 3), ("softmax_law", 4)])
def test_degrees_of_freedom_are_points_less_what_the_mean_is_made_of(law, parameters):
    """Plateau; amplitude and time constant as well; amplitude, start and speed as well. Robust weights count points;
    to within half a parameter, because those of the constant law are one round older."""
    truth = simulate("single_exponential", 2, 30, seed=1)
    for surface in fitted(law, truth.time, truth.reward):
        assert surface.freedom == pytest.approx(surface.weights.sum() - parameters, abs=0.5)
