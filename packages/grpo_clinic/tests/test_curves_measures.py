"""What the diagnostics measure, each number by enumeration or against its rate in simulated noise."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from grpo_clinic.diagnosis import (
    DiagnoseSettings,
    collapse,
    concentration,
    coupling,
    degeneracy,
    excursions,
    severity,
    stability,
)
from grpo_clinic.diagnosis.oscillation import Oscillation
from grpo_clinic.fitting import quality
from grpo_clinic.readers import Curve, RewardScale, Series
from scipy import stats

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
    around = success + np.tile([0.01, -0.01], 25)  # equal rewards in every batch would be silence, whatever G is
    flat = Series(np.arange(50.0), around, "reward")
    run = Curve("run", "", "", "TRL", flat, RewardScale(0.0, 1.0, True))
    (found,) = degeneracy.judge(run, DiagnoseSettings(), size).evidence
    assert found.value == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("points", [6, 40])
def test_the_standard_error_of_a_slope_is_its_scatter(points):
    """4,000 straight lines in white noise (seed 5), unequal steps: mean squared error of the change over the window
    against the mean of the squared standard errors, within 5 standard errors of that ratio (11 %; false alarm 6e-7)."""
    rng = np.random.default_rng(5)
    step = np.cumsum(rng.uniform(0.5, 1.5, points))
    line = 2.0 * (step - step[0]) / np.ptp(step)
    lines = line + 0.3 * rng.normal(size=(DRAWN, points))
    slope, error = np.array([coupling._trend(step, value, 0.3) for value in lines]).T
    assert abs(slope.mean() - 2.0) < 5 * slope.std() / np.sqrt(DRAWN)
    assert np.mean((slope - 2.0) ** 2) / np.mean(error**2) == pytest.approx(1, abs=5 * np.sqrt(2 / DRAWN))


def test_noise_rises_as_often_as_two_standard_errors_say():
    """4,000 curves of 200 points of white noise (seed 6): 2.3 % rise by two standard errors; the noise level is
    estimated, which adds to it: between 1.2 % and 5 %."""
    noise = np.random.default_rng(6).normal(size=(DRAWN, 200))
    assert 0.012 < np.mean([severity._rising(one) for one in noise]) < 0.05


@pytest.mark.parametrize(
    ("rise", "follow", "shortfall", "expected"),
    [
        ((3.0, 1.0), (-1.0, 1.0), 2.0, 2.0),  # both have moved: the weaker of the two
        ((3.0, 1.0), (-1.0, 1.0), 4.0, 3.0),
        ((0.0, 1.0), (-4.0, 1.0), 4.0, 4 / np.sqrt(2) / 1.8),  # training level: the fall alone, and more is asked for
        ((0.5, 1.0), (-1.0, 1.0), 1.0, 1 / 1.8),
        ((-2.0, 1.0), (-5.0, 1.0), 5.0, -2.0),  # both fall: no hacking
    ],
)
def test_the_strength_of_reward_hacking_by_hand(rise, follow, shortfall, expected):
    assert coupling._strength(rise, follow, shortfall) == pytest.approx(expected)


def test_what_a_held_out_result_falls_short_of_by_hand():
    """Half of training's slope before: a tenth of it was to be expected of a rise by 3, .15, and .05 came, +- .1."""
    train = np.arange(12.0)
    assert coupling._shortfall(train, 0.5 * train, 6, (3.0, 0.1), (0.05, 0.1)) == pytest.approx(1.0)
    assert coupling._shortfall(train, 0.5 * train, 4, (3.0, 0.1), (0.05, 0.1)) == pytest.approx(-0.5)  # too few before
    assert coupling._shortfall(train, -0.5 * train, 6, (3.0, 0.1), (0.05, 0.1)) == pytest.approx(-0.5)


def test_training_is_averaged_around_each_held_out_step():
    """Held out at 2, 6 and 9: up to 4, up to 7.5, beyond; at 30 nothing was logged near."""
    step = np.array([1.0, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0, 10.0])
    run = Curve("run", "", "", "TRL", Series(step, step**2, "reward"), RewardScale(0.0, 1.0, True))
    found = coupling._matched(run, np.array([2.0, 6.0, 9.0, 30.0]))
    np.testing.assert_allclose(found, [14 / 3, 37.0, 245 / 3, np.nan])


def test_since_when_the_entropy_is_lost():
    """At 10 % of the early entropy from step 61 on, for good; the share is that of the last tenth's median."""
    step = np.arange(1.0, 101.0)
    entropy = np.where(step <= 60, 2.0, 0.2)
    entropy[30] = 0.1  # a dip is not for good
    series = {"entropy": Series(step, entropy, "entropy")}
    run = Curve("run", "", "", "TRL", Series(step, step / 100, "reward"), RewardScale(0.0, 1.0, True), series=series)
    found = concentration.judge(run, DiagnoseSettings())
    (evidence,) = found.evidence
    assert (evidence.window, evidence.value) == ((61.0, 100.0), pytest.approx(0.1))
    assert found.score == pytest.approx(0.15 / 0.1)
    assert "the reward has moved by +0.32 since" in evidence.text  # means over 8 of the 40 steps at either end
    assert "fell from 2 to 0.2" in evidence.text
    rises = replace(run, series={"entropy": Series(step, np.where(step <= 60, 2.0, 3.0), "entropy")})
    assert "did not fall" in concentration.judge(rises, DiagnoseSettings()).evidence[0].text


def test_noise_is_measured_without_the_trend():
    """4,000 parabolas in white noise of deviation .3 (seed 7), 50 points: the mean variance, and the median of the
    robust deviation, within 5 standard errors (2 %; the robust one is biased by less than that again)."""
    time = np.linspace(-1, 1, 50)
    curves = 5 * time**2 + 0.3 * np.random.default_rng(7).normal(size=(DRAWN, 50))
    assert quality.noise_variance(curves).mean() == pytest.approx(0.09, rel=0.02)
    assert np.median([excursions.noise_level(curve) for curve in curves]) == pytest.approx(0.3, rel=0.04)


def test_shares_of_the_variance_that_a_law_explains():
    """A wave of known variance in noise of known variance: 1 - Q/TSS, and (TSS - Q)/(TSS - (n - 1) s^2)."""
    wave, noise = np.sin(np.arange(40.0)), np.random.default_rng(8).normal(size=40)
    noise -= np.polynomial.Polynomial.fit(wave, noise, 1)(wave)  # so that sums of squares add up
    reward = (wave + noise)[None]
    signal, rest = np.var(wave) * 40, np.sum(noise**2)
    assert quality.r_squared(reward, wave[None]) == pytest.approx([signal / (signal + rest)])
    found = quality.r_squared_explainable(reward, wave[None], np.array([0.5]))
    assert found == pytest.approx([signal / (signal + rest - 39 * 0.5)])
    assert quality.r_squared_explainable(reward, wave[None], np.array([1.2 * rest / 39])) == pytest.approx([1.0])
    assert np.isnan(quality.r_squared_explainable(reward, wave[None], np.array([(signal + rest) / 39])))
    assert quality.r_squared(np.ones((1, 5)), np.ones((1, 5))) == [0.0]


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_growth_of_fluctuations_is_an_f_test_with_fewer_degrees_of_freedom(rho):
    """Residuals of 30, 30 and 30 points, 2, 1 and 3 in size: variances of the last two in the ratio 9."""
    residual = np.repeat([2.0, 1.0, 3.0], 30) * np.tile([1.0, -1.0], 45)
    test = Oscillation(1.0, np.inf, 0.0, "constant", residual, rho)
    evidence = stability.growth(np.arange(90.0), test, DiagnoseSettings())
    freedom = 30 * (1 - rho**2) / (1 + rho**2)
    p = stats.f.sf(9.0, freedom, freedom)
    assert evidence.value == pytest.approx(9.0)
    assert evidence.window == (60.0, 89.0)
    # Of residuals in random order none has this ratio, so that their p is the smallest that they can have; the larger
    # of the two decides.
    assert p < 0.005
    assert "p = 0.005" in evidence.text
    assert 1 <= evidence.score <= 9 / 4


def test_fluctuations_that_did_not_grow_keep_the_f_test():
    """Variances in the ratio 1.44: the F test's p, and a score below 1 that asks no random order."""
    residual = np.repeat([2.0, 1.0, 1.2], 30) * np.tile([1.0, -1.0], 45)
    evidence = stability.growth(
        np.arange(90.0), Oscillation(1.0, np.inf, 0.0, "constant", residual, 0.0), DiagnoseSettings()
    )
    p = stats.f.sf(1.44, 30, 30)
    assert f"p = {p:.2g}" in evidence.text
    assert evidence.score == pytest.approx(0.005 / p)


def test_the_depth_of_swings_is_the_deepest_that_happened_twice():
    """Falls of .6, .5 and .2, each made good: .5 twice; the last fall is not made good."""
    path = np.array([0.2, 0.8, 0.2, 0.9, 0.4, 0.9, 0.7, 0.9, 0.1])
    assert excursions._depth(path) == pytest.approx(0.5, abs=0.8 / 2**11)
    assert excursions._depth(path[:4]) == pytest.approx(0.0, abs=0.8 / 2**11)


def test_swings_are_read_at_the_width_at_which_they_stand_out():
    """Where only one of the two thresholds counts, the width is the one that does best by it: 20 red curves, seed 9,
    of which no width may be best by both measures in all."""
    walks = np.cumsum(np.random.default_rng(9).normal(size=(20, 120)), axis=-1)
    apart = 0
    for walk in walks:
        by_share, by_z = excursions.excursions(walk, 0.0, 1e6, 1e-6), excursions.excursions(walk, 0.0, 1e-6, 1e6)
        assert by_share.share >= by_z.share
        assert by_share.z <= by_z.z
        apart += by_share.width != by_z.width
    assert apart >= 5


@pytest.mark.parametrize(("size", "score"), [(0.01, 0.8 / 0.5), (0.2, None)])
def test_a_collapse_counts_against_the_climb_and_against_noise(size, score):
    """From 0 to 1 to .2, each point off by +-`size`, which means of ten do not see: noise of 1.4826 * 4 size/sqrt 6.
    Without much noise four fifths of the climb are lost, against one half; with much .8 counts in standard errors of
    two means of ten, against five. It sets in where a fifth of the fall is over, at most two of ten points after it."""
    step = np.arange(1.0, 101.0)
    reward = np.repeat([0.0, 1.0, 0.2], [40, 40, 20]) + size * np.tile([1.0, -1.0], 50)
    evidence = collapse.collapse(step, reward, DiagnoseSettings())
    noise = 1.4826 * 4 * size / np.sqrt(6)
    expected = 0.8 / (noise * np.sqrt(0.2)) / 5 if score is None else score
    # The last 3 or 5 points are off by size/3.
    assert evidence.score == pytest.approx(expected, rel=2e-2 if score else 1e-9)
    assert evidence.value == pytest.approx(0.8, abs=size / 3 if score else 1e-9)
    assert evidence.window == (78.0, 100.0)


def test_a_wave_has_its_height_and_its_period():
    """A sine of amplitude .3 and 12 steps, logged every 2: peak to peak .6; a wave must be large and significant."""
    step = np.arange(0.0, 240.0, 2.0)
    sine = 0.3 * np.sin(2 * np.pi * step / 12)
    test = Oscillation(0.001, 12.0, 1.0, "constant", sine, 0.0)
    assert test.height == pytest.approx(0.6)
    run = Curve("run", "", "", "TRL", Series(step, 0.5 + sine, "reward"), RewardScale(0.0, 3.0, True))
    assert stability.wave_score(run, test, DiagnoseSettings()) == pytest.approx(5.0)  # p of .001 against .005
    assert stability.wave_score(run, test, DiagnoseSettings(wave_share=0.5)) == pytest.approx(0.6 / 1.0 / 0.5)
