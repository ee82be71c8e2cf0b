"""Clinic and probe have formulas of their own: the laboratory's are the other witness."""

import math

import numpy as np
import pytest
from grpo_clinic import law
from grpo_probe import loop

from bandit_lab import theory


@pytest.mark.parametrize("ratio", [0.15, 0.9, 1 - 1e-9, 1.0, 1.001, 3.0, 12.0])
def test_the_rise_that_is_fitted_is_the_response_from_rest(ratio):
    time, frequency = np.linspace(0, 60, 200), 0.2
    mass, damping = 1 / frequency**2, 2 * ratio / frequency
    expected = theory.response(theory.Oscillator(mass, damping, 1.0), time, 0.0, 1.0)
    np.testing.assert_allclose(law.rise(time, np.array(frequency), np.array(ratio)), expected, atol=1e-12)


@pytest.mark.parametrize("convention", ["heavy_ball", "ema", "nesterov"])
def test_the_damping_ratio_of_a_setting(convention):
    for momentum in (0.0, 0.5, 0.95):
        expected = theory.oscillator(0.1, momentum, 0.3, 2.5, convention).damping_ratio
        assert law.damping_ratio(0.1, momentum, 0.3, 2.5, convention) == pytest.approx(expected, rel=1e-12)


def test_the_probes_thresholds_are_those_of_the_theory():
    """60 random modes (seed 0), fresh and stale parts of any sign: learning rate and interval."""
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(60):
        model, convention = loop.MODELS[rng.integers(3)], loop.CONVENTIONS[rng.integers(3)]
        momentum, interval = float(rng.choice([0, 0.5, 0.9, 0.95])), int(rng.integers(1, 12))
        fresh, stale = rng.normal(size=2)
        if fresh + stale <= 0:
            continue
        mode = loop.Mode(fresh, stale, momentum, model, convention)
        other = theory.LinearLoop(fresh, stale, momentum, model, convention)
        expected = theory.first_unstable_learning_rate(other, interval).value
        threshold = loop.largest_rate(mode, interval)
        assert threshold == pytest.approx(math.inf if expected is None else expected, rel=1e-9)
        rate = threshold * rng.uniform(0.1, 1.2) if math.isfinite(threshold) else 0.1
        expected = theory.first_unstable_refresh_interval(other, rate, loop.LONGEST["lag"]).value
        first = loop.first_unstable_interval(mode, rate)
        first = None if first is not None and first > loop.LONGEST["lag"] else first
        assert first == (None if expected is None else int(expected))
        compared += 1
    assert compared > 25
