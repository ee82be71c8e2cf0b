"""Diagnosis: planted failures are found, healthy runs are left alone, and what cannot be judged is said."""

from dataclasses import replace

import numpy as np
import pytest
from grpo_clinic.diagnosis import DiagnoseSettings, diagnose, oscillation_test, oscillation_tests, stability
from grpo_clinic.diagnosis.degeneracy import silent_share_bound
from grpo_clinic.diagnosis.excursions import excursions
from grpo_clinic.diagnosis.verdict import traps
from grpo_clinic.readers import Curve, RewardScale, Series
from simulated_curves import noise, simulate

QUICK = DiagnoseSettings(surrogates=199)
STEP = np.arange(1.0, 121.0)


def rising(seed=0, sigma=0.03):
    return 0.2 + 0.5 * (1 - np.exp(-STEP / 25)) + sigma * np.random.default_rng(seed).normal(size=STEP.size)


def curve(reward, **others):
    series = {name: Series(STEP, value, name) for name, value in others.items() if name not in ("eval", "parts")}
    made = Curve(
        "run", "file", "test", "TRL", Series(STEP, reward, "reward"), RewardScale(0.0, 1.0, True), series=series
    )
    return replace(made, eval=others.get("eval"), parts=others.get("parts", {}))


def held_out(values):
    return Series(np.linspace(5, 120, len(values)), np.asarray(values, float), "eval_reward")


def test_a_healthy_run_with_every_metric_is_healthy():
    """12 healthy runs (seeds 0..11): at a false-alarm level of 1 % more than two alarms would be a defect."""
    alarms = 0
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        follow = 0.15 + 0.45 * (1 - np.exp(-np.linspace(5, 120, 12) / 25)) + 0.02 * rng.normal(size=12)
        more = {"zero_std_frac": np.full(120, 0.3), "truncation": np.full(120, 0.02)}
        run = curve(rising(seed), eval=held_out(follow), entropy=1.0 - 0.003 * STEP, **more)
        found = diagnose(run, QUICK)
        assert [name for name, score in found.scores.items() if score is None] == []
        alarms += found.verdict != ("healthy",)
    assert alarms <= 2


def test_reward_hacking_is_a_training_reward_that_leaves_the_held_out_one_behind():
    rng = np.random.default_rng(1)
    turned = np.concatenate((np.linspace(0.2, 0.5, 6), np.linspace(0.48, 0.25, 8))) + 0.01 * rng.normal(size=14)
    assert "reward_hacking" in diagnose(curve(0.2 + 0.004 * STEP, eval=held_out(turned)), QUICK).verdict
    part = Series(STEP, 0.4 - 0.001 * STEP + 0.02 * rng.normal(size=120), "rewards/accuracy/mean")
    assert "reward_hacking" in diagnose(curve(0.2 + 0.004 * STEP, parts={"rewards/accuracy/mean": part}), QUICK).verdict
    lost = diagnose(curve(rising()), QUICK)
    assert lost.scores["reward_hacking"] is None
    assert any("hacking cannot be judged" in text for text in lost.missing)


def test_degeneracy_is_observed_or_bounded_and_success_is_not_counted():
    flat = 0.3 + 0.01 * np.random.default_rng(2).normal(size=120)
    assert "advantage_degeneracy" in diagnose(curve(flat, zero_std_frac=np.full(120, 0.9)), QUICK).verdict
    assert "advantage_degeneracy" in diagnose(curve(0.05 + 0 * STEP), QUICK, group_size=4).verdict
    top = 0.98 - 0.9 * np.exp(-STEP / 10)
    assert "advantage_degeneracy" not in diagnose(curve(top), QUICK, group_size=4).verdict
    saturated = diagnose(curve(0.98 + 0 * STEP), QUICK, group_size=4)
    assert "advantage_degeneracy" in saturated.verdict
    assert "harder prompts" in saturated.next
    assert any("group size" in text for text in diagnose(curve(flat), QUICK).missing)


def test_the_whole_stretch_of_silence_is_reported():
    """Silent throughout; silent from step 41 on; the number stays that of the last fifth."""
    flat = 0.3 + 0.01 * np.random.default_rng(2).normal(size=120)
    for share, first, text in ((np.full(120, 0.9), 1, "throughout"), (np.where(STEP > 40, 0.9, 0.1), 41, "since step")):
        (seen,) = [e for e in diagnose(curve(flat, zero_std_frac=share), QUICK).evidence if e.metric == "silent_share"]
        assert abs(seen.window[0] - first) <= 12
        assert seen.window[1] == 120
        assert seen.value == pytest.approx(0.9)
        assert text in seen.text
    (seen,) = [e for e in diagnose(curve(0 * STEP + 0.05), QUICK, group_size=4).evidence if e.metric == "silent_share"]
    assert seen.window == (1, 120)


def test_the_bound_on_silent_groups_is_a_bound():
    """Whatever the spread of p over prompts (Beta with mean 0.3), the true share is at least the bound at the mean."""
    rng = np.random.default_rng(3)
    for concentration in (0.5, 2.0, 50.0):
        p = rng.beta(0.3 * concentration, 0.7 * concentration, 200_000)
        assert np.mean(p**8 + (1 - p) ** 8) >= silent_share_bound(np.array([p.mean()]), 8)[0] - 1e-12


def test_concentration_is_a_lost_entropy():
    assert "policy_concentration" in diagnose(curve(rising(), entropy=np.exp(-STEP / 20)), QUICK).verdict
    assert "policy_concentration" not in diagnose(curve(rising(), entropy=1 - 0.005 * STEP), QUICK).verdict


def test_collapse_is_found_with_its_onset_even_if_late():
    for onset in (60, 110):
        reward = rising(4)
        reward[onset - 1 :] = 0.01
        found = diagnose(curve(reward), QUICK)
        assert "dynamical_instability" in found.verdict
        (fall,) = [e for e in found.evidence if e.metric == "fall"]
        assert abs(fall.window[0] - onset) <= 10
    assert diagnose(curve(rising(4)), QUICK).scores["dynamical_instability"] < 1


def falls(reward):
    """(oscillation found, collapse found) of 240 points."""
    steps = np.arange(reward.size, dtype=float)
    scale = RewardScale(0.0, 1.0, True)
    seen = diagnose(Curve("run", "file", "test", "TRL", Series(steps, reward, "reward"), scale), QUICK).evidence
    above = {e.metric: e for e in seen}
    return above["oscillation_p"].above, above["fall"].above, above["fall"]


def steady_wave(seed, period=24, phase=0.0, level=0.5):
    noise = 0.02 * np.random.default_rng(seed).normal(size=240)
    return level + 0.2 * np.sin(2 * np.pi * (np.arange(240) / period + phase)) + noise


@pytest.mark.parametrize("level", [0.5, 0.0])
def test_the_trough_of_a_wave_is_no_collapse(monkeypatch, level):
    """12 seeds, periods 15 to 33 and ends at all phases, also about zero; counted without the wave, troughs at the
    end are collapses."""
    made = [steady_wave(seed, 15 + 1.6 * seed, seed / 12, level) for seed in range(12)]
    found = [falls(reward) for reward in made]
    assert all(wave for wave, _, _ in found)
    assert not any(fall for _, fall, _ in found)
    plain = stability.collapse
    monkeypatch.setattr(stability, "collapse", lambda step, reward, settings, *_: plain(step, reward, settings))
    assert sum(falls(reward)[1] for reward in made) >= 3


def test_a_wave_whose_mean_falls_for_more_than_a_period_has_collapsed():
    """Two periods at the end, the wave going on or dead."""
    late = np.arange(240) >= 192
    for left in (0.2, 0.0):
        reward = steady_wave(3)
        reward = np.where(late, 0.02 + left * (reward - 0.3), reward)
        wave, fall, seen = falls(reward)
        assert wave
        assert fall
        assert abs(seen.window[0] - 192) <= 24
        assert "whole periods" in seen.text


def test_planted_oscillations_and_growing_fluctuations_are_found():
    wave = 0.06 * np.sin(2 * np.pi * STEP / 15)
    test = oscillation_test(STEP, rising(5) + wave, 199)
    assert test.p_value <= 0.01
    assert test.period == pytest.approx(15, rel=0.1)
    assert "dynamical_instability" in diagnose(curve(rising(5) + wave), QUICK).verdict
    growing = rising(6, sigma=0.0) + 0.02 * np.exp(STEP / 40) * np.random.default_rng(7).normal(size=120)
    assert "dynamical_instability" in diagnose(curve(growing), QUICK).verdict


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_the_false_alarm_rate_of_oscillation_is_the_stated_one(rho):
    """40 monotone curves with AR(1) noise, level 10 %, seed 31: at most 10 % + 4 standard errors (0.29) alarms."""
    truth = simulate("single_exponential", 40, 60, rho=rho, seed=31)
    found = oscillation_tests(truth.time, truth.reward, 99, range(len(truth.reward)))
    alarms = [one.p_value <= 0.1 for one in found]
    assert np.mean(alarms) <= 0.29


@pytest.mark.nightly
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_the_false_alarm_rate_is_five_percent_over_many_curves(rho):
    """1,000 monotone curves of 120 points, level 5 %: 5 % +- 1.5 % plus two standard errors of the count (1.4 %)."""
    truth = simulate("softmax_law", 1000, 120, rho=rho, seed=32)
    alarms = [one.p_value <= 0.05 for one in oscillation_tests(truth.time, truth.reward, 199, range(1000))]
    assert 0.021 <= np.mean(alarms) <= 0.079


def test_many_curves_at_once_are_tested_as_one_by_one():
    truth = simulate("softmax_law", 6, 120, rho=0.3, seed=33)
    together = oscillation_tests(truth.time, truth.reward, 99, range(6))
    for seed, (reward, one) in enumerate(zip(truth.reward, together, strict=True)):
        alone = oscillation_test(truth.time, reward, 99, seed)
        assert (one.law, one.p_value) == (alone.law, alone.p_value)
        np.testing.assert_allclose(one.residual, alone.residual, atol=1e-8)


def test_white_noise_surrogates_would_be_caught(monkeypatch):
    """The planted defect: autocorrelation ignored, red noise is taken for a wave in more than a fifth of 25 curves.

    At the stated 5 % that happens in one of 800 sets of 25.
    """
    monkeypatch.setattr(
        "grpo_clinic.diagnosis.oscillation._correlation", lambda residual, tangent: np.zeros(len(residual))
    )
    rewards = 0.5 + 0.05 * noise(np.random.default_rng(33), 25, 80, 0.8)
    assert np.mean([oscillation_test(np.arange(80.0), r, 99).p_value <= 0.05 for r in rewards]) > 0.2


def test_traps_are_named():
    quiet = curve(rising(), clip_frac=np.zeros(120))
    assert any("by construction" in text for text in traps(quiet, refresh_interval=1))
    assert any("if the refresh interval is 1" in text for text in traps(quiet))
    assert not any(
        "clipped" in text for text in traps(curve(rising(), clip_frac=np.full(120, 0.1)), refresh_interval=1)
    )


def test_short_and_odd_runs_are_judged_as_far_as_possible():
    short = Curve("s", "f", "test", "TRL", Series(STEP[:4], np.ones(4), "reward"), RewardScale(0, 1, False))
    assert diagnose(short, QUICK).scores["dynamical_instability"] is None
    assert diagnose(curve(np.full(120, 0.5)), QUICK).verdict == ("advantage_degeneracy", "stalled")
    with pytest.raises(ValueError, match="false_alarm"):
        DiagnoseSettings(false_alarm=0)


def test_swings_are_read_with_a_hysteresis():
    """Two falls of 0.4 that were made good again; one fall alone, or a rise, has no second swing."""
    path = np.interp(np.arange(60.0), [0, 10, 20, 30, 40, 50, 59], [0.2, 0.8, 0.3, 0.8, 0.4, 0.9, 0.9])
    assert excursions(path, 1.0, 0.4, 5.5).depth == pytest.approx(0.4, abs=0.08)  # rounded off by the means
    once = np.interp(np.arange(60.0), [0, 20, 40, 59], [0.2, 0.8, 0.3, 0.8])
    assert excursions(once, 1.0, 0.4, 5.5).depth < 0.02
    assert excursions(np.linspace(0.1, 0.9, 60), 1.0, 0.4, 5.5).depth < 0.02


def test_an_irregular_cycle_is_found_and_red_noise_is_not():
    """Blocks of random length at two levels, noise 0.08: instability in at least 9 of 10 runs. AR(1) noise of the same
    deviation about a rise (rho 0.6): at most 1 of 10 (seed 41)."""
    rng = np.random.default_rng(41)
    found = alarms = 0
    for _ in range(10):
        levels = np.repeat(np.arange(40) % 2, rng.integers(3, 12, 40))[:120]
        found += (
            diagnose(curve(0.4 + 0.35 * levels + 0.08 * rng.normal(size=120)), QUICK).verdict[0]
            == "dynamical_instability"
        )
        red = curve(rising(sigma=0.0) + 0.08 * noise(rng, 1, 120, 0.6)[0])
        alarms += diagnose(red, QUICK).verdict not in (("healthy",), ("not_judged",))
    assert found >= 9
    assert alarms <= 1


def test_a_wave_that_is_significant_but_small_is_no_instability():
    step = np.arange(400)
    small = 0.2 + 0.5 * (1 - np.exp(-step / 80)) + 0.012 * np.sin(2 * np.pi * step / 20)
    reward = small + 0.02 * np.random.default_rng(8).normal(size=400)
    test = oscillation_test(step.astype(float), reward, 199)
    assert test.p_value <= 0.01
    long = replace(curve(rising()), reward_series=Series(step.astype(float), reward, "reward"))
    assert diagnose(long, QUICK).verdict == ("not_judged",)  # the reward is all that is logged


def test_silence_is_no_success_on_a_scale_that_is_estimated_from_a_flat_curve():
    flat = 0.9 + 0.01 * np.random.default_rng(9).normal(size=120)
    for given in (False, True):  # given: it stood there from the start
        run = replace(curve(flat, zero_std_frac=np.full(120, 0.95)), scale=RewardScale(0.0, 1.0, given))
        assert "advantage_degeneracy" in diagnose(run, QUICK).verdict
    climbed = replace(curve(0.1 + 0.8 * (1 - np.exp(-STEP / 20)), zero_std_frac=np.full(120, 0.95)),
                      scale=RewardScale(0.0, 1.0, False))  # fmt: skip
    assert diagnose(climbed, QUICK).verdict == ("healthy",)  # four of seven were judged
    alone = replace(climbed, series={})
    assert diagnose(alone, QUICK).verdict == ("not_judged",)  # three of seven
    known = replace(climbed, eval=held_out(np.linspace(0.1, 0.9, 14)), series={
        **climbed.series, "kl": Series(STEP, 0.001 * STEP, "kl")})  # fmt: skip
    assert diagnose(known, QUICK).verdict == ("healthy",)


def test_a_held_out_result_that_falls_while_training_stays_level_is_hacking():
    rng = np.random.default_rng(10)
    level = 0.6 + 0.02 * rng.normal(size=120)
    falling = np.concatenate((np.full(5, 0.6), np.linspace(0.58, 0.2, 9))) + 0.01 * rng.normal(size=14)
    assert "reward_hacking" in diagnose(curve(level, eval=held_out(falling)), QUICK).verdict
    both = np.concatenate((level[:60], level[60:] - np.linspace(0, 0.4, 60)))
    assert "reward_hacking" not in diagnose(curve(both, eval=held_out(falling)), QUICK).verdict


def test_a_part_that_is_the_reward_over_again_is_no_held_out_result():
    reward = rising()
    again = {"reward/pass@1": Series(STEP, 2 * reward + 1, "reward/pass@1")}
    found = diagnose(curve(reward, parts=again), QUICK)
    assert found.scores["reward_hacking"] is None
    other = {"rewards/accuracy/mean": Series(STEP, rising(77), "rewards/accuracy/mean")}
    found = diagnose(curve(reward, parts=other), QUICK)
    assert found.scores["reward_hacking"] is not None
    assert any("shows in no logged metric" in text for text in found.missing)


def test_a_reward_that_ends_as_no_number_has_diverged():
    """No number for the last ten steps is divergence; two rows are none, nor are ten where every tenth is logged."""
    run = curve(rising())
    ended = replace(run, nonfinite_steps=np.arange(121.0, 131.0))
    found = diagnose(ended, QUICK)
    assert found.verdict == ("diverging", "dynamical_instability")
    assert any("from step 121 to the end of the log (10 rows)" in one.text for one in found.evidence)
    for steps in (np.arange(121.0, 123.0), np.array([3.0, 4.0]), np.setdiff1d(np.arange(130.0), 10 * STEP)):
        kept = run if steps.size < 9 else replace(run, reward_series=Series(10 * STEP[:12], run.reward[:12], "reward"))
        assert diagnose(replace(kept, nonfinite_steps=steps), QUICK).verdict == ("not_judged",)
