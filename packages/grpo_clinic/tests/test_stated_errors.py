"""Errors that are printed beside numbers are their scatter, intervals have their width, p-values count the tries."""

import numpy as np
import pytest
from grpo_clinic.fitting import fit_curve
from grpo_clinic.fitting.results import noise_errors
from grpo_clinic.readers import epochs
from simulated_curves import fitted, simulate

COUNT = 300
ALLOWED = 5 / np.sqrt(2 * COUNT)
"""Five standard errors of the scatter of COUNT numbers, over the scatter: 0.2; false alarm 6e-7."""


@pytest.mark.parametrize(("points", "rho"), [(200, 0.0), (200, 0.5), (1000, None)])
def test_errors_of_the_noise_are_its_scatter(points, rho):
    """300 constants under AR(1) noise, seed 3; None: correlations spread over [0, 0.8], so that a rounding to those
    that are tried counts. (estimate - truth)/(stated error) has the scatter 1. Planted: an error without that
    rounding, one of white noise, and one over n instead of its root."""
    truth = np.random.default_rng(4).uniform(0, 0.8, COUNT) if rho is None else np.full(COUNT, rho)
    curves = simulate("constant", COUNT, points, rho=truth, seed=3)
    every = [noise_errors(one) for one in fitted("constant", curves.time, curves.reward)]
    estimates = {name: np.transpose([one[name] for one in every]) for name in ("sigma", "rho")}

    def scatter(name, error):
        gap = estimates[name][0] - (truth if name == "rho" else 0.05)
        return np.sqrt(np.mean((gap / error) ** 2))

    for name, (_, error) in estimates.items():
        assert scatter(name, error) == pytest.approx(1, abs=ALLOWED), name
        assert scatter(name, error / np.sqrt(points)) > 1 + ALLOWED
    plain = np.sqrt((1 - estimates["rho"][0] ** 2) / points)
    if rho is None:
        assert scatter("rho", plain) > 1 + ALLOWED
    if rho == 0.5:
        assert scatter("sigma", estimates["sigma"][0] / np.sqrt(2 * points)) > 1 + ALLOWED


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_and_stated_errors_have_the_width_of_the_scatter(level):
    """300 exponentials of 120 points under white noise, seed 5: intervals cover at their level within 5 standard
    errors, both ways; (estimate - truth)/(stated error) has the scatter 1. Planted: the interval of another level."""
    curves = simulate("single_exponential", COUNT, 120, sigma=0.03, seed=5)
    fits = [fit_curve(curves.time, one, ("single_exponential",), level) for one in curves.reward]
    truths = {"plateau": curves.plateau, "amplitude": curves.amplitude, "delay": np.exp(curves.theta[:, 0])}
    for name, truth in truths.items():
        numbers = [one.laws["single_exponential"].parameters[name] for one in fits]
        value, low, high, error = (
            np.array([getattr(one, part) for one in numbers]) for part in ("value", "low", "high", "standard_error")
        )
        rate = np.mean((low <= truth) & (truth <= high))
        assert rate == pytest.approx(level, abs=5 * np.sqrt(level * (1 - level) / COUNT)), name
        assert rate != pytest.approx(1.4 - level, abs=5 * np.sqrt(level * (1 - level) / COUNT))
        assert np.sqrt(np.mean(((value - truth) / error) ** 2)) == pytest.approx(1, abs=ALLOWED), name


STEP, PERIOD = np.arange(1.0, 141.0), 20.0


def noise(seed):
    return 0.5 + 0.05 * np.random.default_rng(seed).normal(size=STEP.size)


def test_the_test_for_an_order_of_the_data_holds_its_level():
    """200 runs of noise (seeds 0 to 199), 24 shifts, level 20 %: alarms within 5 standard errors (.14) of it."""
    tests = [epochs.data_order(STEP, noise(seed), PERIOD, shifts=24) for seed in range(200)]
    assert abs(np.mean([one.p_value <= 0.2 for one in tests]) - 0.2) <= 5 * np.sqrt(0.2 * 0.8 / 200)
