"""Sick runs: what is planted is there, logs are what was drawn, scores count right, failures are found."""

from dataclasses import replace

import numpy as np
import pytest

from bandit_lab.theory import thresholds
from experiments.grading import diagnoses, scores
from experiments.shared.sick_runs.effects import effects, label
from experiments.shared.sick_runs.plant import load, plant, plant_one
from experiments.shared.sick_runs.simulate import simulate_all, with_rates

WITH = {
    "healthy": None,
    "exploit": "reward_hacking",
    "split_prompts": "advantage_degeneracy",
    "early_certainty": "policy_concentration",
    "cycles": "dynamical_instability",
}
EACH = 8


def one_shape():
    """The training ranges with one batch shape and length, so that one program serves all."""
    ranges = load("training")
    ranges["log"] |= {"batch": {"one_of": [[16, 8]]}, "points": 120.0}
    return ranges


@pytest.fixture(scope="module")
def runs():
    """EACH runs of every recipe in WITH, in order."""
    return simulate_all([plant_one(one_shape(), recipe, 3, i) for recipe in WITH for i in range(EACH)])


@pytest.fixture(scope="module")
def panel(runs):
    return diagnoses.judge(runs, {}, lambda done, total: None)


def test_logged_rewards_are_draws_of_the_hidden_means(runs):
    """z of the mean over each run, 40 runs: |z| <= 4.5; per step 128 draws, prompts drawn anew (variance <= 1/4/16)."""
    for one in runs:
        if one.planted.refresh_interval > 1:
            continue  # drawn from the policy of the block's start, not from the current one
        error = 0.5 / np.sqrt(one.planted.prompts * one.planted.points)
        assert abs(np.mean(one.reward - one.trained)) <= 4.5 * error
        assert abs(np.mean(one.silent - one.silent_mean)) <= 4.5 * error
    wrong = runs[0].reward + 0.1  # the planted defect: rewards that are not those of the policy
    assert abs(np.mean(wrong - runs[0].trained)) > 4.5 * 0.5 / np.sqrt(runs[0].planted.prompts * wrong.size)


def test_planted_failures_show_in_the_hidden_state(runs):
    """In most of the runs of each recipe the failure reaches the demanded size, in healthy ones none is there."""
    about = load("effects")
    labels = [label(effects(one, about), about) for one in runs]
    for place, failure in enumerate(WITH.values()):
        mine = labels[place * EACH : (place + 1) * EACH]
        if failure is None:
            assert sum(set(one.values()) == {"absent"} for one in mine) >= EACH - 1
        else:
            assert sum(one[failure] != "absent" for one in mine) >= EACH // 2


def test_the_learning_rate_is_set_over_the_exact_threshold():
    """Fluctuations below and above it, medians of 5 runs; the stiffness implied is one of this KL weight."""
    planted = [plant_one(one_shape(), "cycles", 3, i) for i in range(5)]
    below, above = (with_rates([replace(one, over_threshold=x) for one in planted]) for x in (0.5, 1.5))
    for low, high in zip(below, above, strict=True):
        assert high.learning_rate == pytest.approx(3 * low.learning_rate)
        kappa = thresholds.exact("refresh", low.refresh_interval, low.momentum).kappa
        assert 0.01 < kappa / (low.learning_rate / 0.5) < low.kl_weight
    spread = [np.median([np.std(one.trained[60:]) for one in simulate_all(runs)]) for runs in (below, above)]
    assert spread[1] > 2 * spread[0]


def test_the_diagnostics_find_what_is_planted(panel):
    """40 runs of training ranges: mean recall >= 0.9 where demanded (0.99 of 1,000 runs), at most one false alarm."""
    assert scores.macro_recall(panel.judged) >= 0.9
    assert scores.false_alarms(panel.judged)[0] <= 1
    assert scores.false_alarms(panel.judged)[1] >= EACH - 1


@pytest.mark.nightly
def test_the_targets_hold_on_the_first_held_out_runs():
    """150 of the 1,500 published ones, as they come: mean recall >= 0.95 (0.99 of all), at most one false alarm (0.8 %
    of all; about 50 of these are healthy)."""
    runs = simulate_all(plant(load("held_out"), 150))
    judged = diagnoses.judge(runs, {}, lambda done, total: None).judged
    assert scores.macro_recall(judged) >= 0.95
    alarms, healthy = scores.false_alarms(judged)
    assert alarms <= 1
    assert healthy >= 40


def test_deaf_diagnostics_would_fail(runs):
    """The planted defect: thresholds that nothing reaches."""
    deaf = {"silent_groups": 1.5, "entropy_lost": 1e-4, "fall.alone": 50.0, "fall.reward": 50.0,
            "swings": 50.0}  # fmt: skip
    assert scores.macro_recall(diagnoses.judge(runs, deaf, lambda done, total: None).judged) < 0.5
