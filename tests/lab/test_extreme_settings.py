"""Values at the ends of what a setting holds: no warning of NumPy, and fixed points where arms hardly differ."""

import warnings

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab import _checks
from bandit_lab.theory import fixed_points
from bandit_lab.theory.stiffness import MomentSignal


@pytest.mark.parametrize("rate", [1e-300, _checks.LARGEST])
@pytest.mark.parametrize("more", [{}, {"optimizer": "nesterov", "momentum": 0.0, "advantage": "dr_grpo"}])
def test_no_warning_at_the_ends_of_what_is_taken(rate, more):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        bl.predict(learning_rate=rate, **more)
        if not more:
            bl.simulate(learning_rate=rate, steps=3, seeds=4)


@pytest.mark.parametrize("gap", [1e-100, 5e-324])
@pytest.mark.parametrize("weight", [1e-200, 1.0, 1e30])
def test_the_fixed_point_of_arms_that_hardly_differ(gap, weight):
    """pi ~ pi_ref exp(r h / beta) with h = 1, by hand."""
    signal = MomentSignal((0.0, gap), (0.0, 0.0), "dr_grpo")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        points = fixed_points(signal, np.array([0.3, 0.7]), weight)
    worse = 0.3 * np.exp(-gap / weight) / (0.3 * np.exp(-gap / weight) + 0.7)
    np.testing.assert_allclose([one.policy for one in points], [[worse, 1 - worse]], atol=1e-12)
