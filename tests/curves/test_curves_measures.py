"""What the diagnostics measure, each number by enumeration or against its rate in simulated noise."""

import itertools

import numpy as np
import pytest

from bandit_lab.curves import Curve, RewardScale, Series
from bandit_lab.curves.diagnose import DiagnoseSettings, degeneracy, severity
from bandit_lab.curves.diagnose.coupling import _trend

DRAWN = 4000


@pytest.mark.parametrize("success", [0.03, 0.3, 0.9])
@pytest.mark.parametrize("size", [2, 5])
def test_silent_groups_are_those_that_all_fail_and_those_that_all_succeed(success, size):
    """By enumeration of all groups; the same number in the evidence of a run that stays at this reward."""
    expected = sum(
        np.prod([success if won else 1 - success for won in group])
        for group in itertools.product((True, False), repeat=size)
        if len(set(group)) == 1
    )
    assert degeneracy.silent_share_bound(np.array([success]), size) == pytest.approx([expected])
    flat = Series(np.arange(50.0), np.full(50, success), "reward")
    run = Curve("run", "", "", "TRL", flat, RewardScale(0.0, 1.0, True))
    (found,) = degeneracy.judge(run, DiagnoseSettings(), size).evidence
    assert found.value == pytest.approx(expected)


@pytest.mark.parametrize("points", [6, 40])
def test_the_standard_error_of_a_slope_is_its_scatter(points):
    """4,000 straight lines in white noise (seed 5), unequal steps: mean squared error of the change over the window
    against the mean of the squared standard errors, within 5 standard errors of that ratio (11 %; false alarm 6e-7)."""
    rng = np.random.default_rng(5)
    step = np.cumsum(rng.uniform(0.5, 1.5, points))
    line = 2.0 * (step - step[0]) / np.ptp(step)
    lines = line + 0.3 * rng.normal(size=(DRAWN, points))
    slope, error = np.array([_trend(step, value, 0.3) for value in lines]).T
    assert abs(slope.mean() - 2.0) < 5 * slope.std() / np.sqrt(DRAWN)
    assert np.mean((slope - 2.0) ** 2) / np.mean(error**2) == pytest.approx(1, abs=5 * np.sqrt(2 / DRAWN))


def test_noise_rises_as_often_as_two_standard_errors_say():
    """4,000 curves of 200 points of white noise (seed 6): 2.3 % rise by two standard errors; the noise level is
    estimated, which adds to it: between 1.2 % and 5 %."""
    noise = np.random.default_rng(6).normal(size=(DRAWN, 200))
    assert 0.012 < np.mean([severity._rising(one) for one in noise]) < 0.05
