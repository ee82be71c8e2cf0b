"""What became of a run: standstill, collapse and divergence are found, and told from what only looks like them."""

from dataclasses import replace

import numpy as np
import pytest
from grpo_clinic.diagnosis import DiagnoseSettings, Diagnosis, Evidence, Finding, diagnose
from grpo_clinic.diagnosis.divergence import judge as divergence
from grpo_clinic.diagnosis.outcomes import collapsed, stalled
from grpo_clinic.logs.findings import verdict_lines
from grpo_clinic.readers import Curve, RewardScale, Series

SETTINGS = DiagnoseSettings(surrogates=199)


def curve(reward, scale=(0.0, 1.0), **series):
    step = np.arange(1.0, len(reward) + 1)
    logged = {name: Series(step, np.asarray(value, float), name) for name, value in series.items()}
    reward = Series(step, np.asarray(reward, float), "reward")
    return Curve("run", "file", "test", "TRL", reward, RewardScale(*scale, True), series=logged)


def noise(points, size, seed):
    return size * np.random.default_rng(seed).normal(size=points)


def test_a_flat_run_stalls_and_a_rising_one_does_not():
    """Noise 0.05, 100 points; a rise of 0.3 over the run is six times the noise (seeds 0 to 19: no mistake of 40)."""
    for seed in range(20):
        flat, rise = 0.3 + noise(100, 0.05, seed), np.linspace(0.3, 0.6, 100) + noise(100, 0.05, seed)
        assert stalled(curve(flat), SETTINGS).present
        assert not stalled(curve(rise), SETTINGS).present


def test_a_standstill_near_the_top_is_none_and_one_that_noise_could_hide_is_not_judged():
    assert stalled(curve(0.95 + noise(100, 0.01, 1)), SETTINGS).score == 0
    hidden = stalled(curve(0.5 + noise(20, 0.4, 2)), SETTINGS)
    assert hidden.score is None
    assert "noise" in hidden.missing


def test_a_gain_that_was_lost_again_is_no_gain():
    path = np.concatenate((np.linspace(0.3, 0.45, 50), np.linspace(0.45, 0.3, 50))) + noise(100, 0.02, 3)
    assert stalled(curve(path), SETTINGS).present


def test_a_collapse_is_remembered_after_a_partial_recovery():
    """.1 to .46, to .002 within 8 points, back to .2; a dip that is made good is no collapse."""
    fall = np.concatenate((np.linspace(0.1, 0.46, 20), np.linspace(0.46, 0.002, 8)))
    lasting = np.concatenate((fall, np.full(5, 0.002), np.linspace(0.002, 0.2, 12))) + noise(45, 0.01, 4)
    dip = np.concatenate((fall, np.full(5, 0.002), np.linspace(0.002, 0.45, 20))) + noise(53, 0.01, 5)
    found = collapsed(curve(lasting), SETTINGS)
    assert found.present
    (deepest,) = (one for one in found.evidence if one.metric == "deepest_fall")
    assert deepest.above
    assert 16 <= deepest.window[0] <= 23
    assert not collapsed(curve(dip), SETTINGS).present


def test_a_short_run_that_falls_to_nothing_has_collapsed():
    assert collapsed(curve([0.1, 0.3, 0.42, 0.46, 0.45, 0.2, 0.03, 0.002, 0.002, 0.001]), SETTINGS).present
    assert collapsed(curve([0.1, 0.3, 0.4, 0.0]), SETTINGS).score is None  # one row
    assert collapsed(curve([0.1, 0.3, 0.4, 0.0, 0.01]), SETTINGS).present


@pytest.mark.parametrize(("name", "high"), [("kl", 30.0), ("grad_norm", 40.0), ("entropy", 6.0)])
def test_an_explosion_is_found_where_it_is_logged(name, high):
    usual = {"kl": 0.05, "grad_norm": 0.4, "entropy": 1.0}[name]
    logged = np.full(60, usual) * np.exp(noise(60, 0.1, 6))
    assert not divergence(curve(np.linspace(0.2, 0.6, 60), **{name: logged}), SETTINGS).present
    logged[45:] = high
    found = divergence(curve(np.linspace(0.2, 0.6, 60), **{name: logged}), SETTINGS)
    assert found.present
    assert found.onset == 46


def test_a_small_number_times_ten_is_no_explosion_and_says_so():
    """The row stands above its printed threshold; the second condition is printed beside it."""
    kl = np.where(np.arange(60) < 45, 1e-4, 5e-3)
    found = divergence(curve(np.linspace(0.2, 0.6, 60), kl=kl), SETTINGS)
    (one,) = found.evidence
    assert one.value > one.threshold
    assert not one.above
    assert one.also == "and at least 1 nats"
    assert divergence(curve(np.linspace(0.2, 0.6, 60)), SETTINGS).score is None


def test_every_row_beyond_its_threshold_is_an_alarm_or_names_a_second_condition():
    """Twelve random walks with every quantity logged (seed 7): no silent row."""
    rng, beyond = np.random.default_rng(7), 0
    for _ in range(12):
        walk = np.clip(0.4 + 0.06 * np.cumsum(rng.normal(size=80)), 0, 1)
        others = {name: np.exp(np.cumsum(0.3 * rng.normal(size=80))) for name in ("kl", "grad_norm", "entropy")}
        for one in diagnose(curve(walk, **others), SETTINGS).evidence:
            beyond += one.value > one.threshold and not one.above
            assert one.above or one.also or one.value <= one.threshold, one
    assert beyond > 0


def at(failure, first):
    return Finding(failure, 2.0, (Evidence("x", (first, 100.0), 2.0, 1.0, "", 2.0),))


def test_causes_stand_before_effects():
    """Silent groups before a collapse are a cause; behind it they are its effect."""
    instability = at("dynamical_instability", 40.0)
    before = Diagnosis("run", (at("advantage_degeneracy", 10.0), at("collapsed", 40.0), instability))
    after = Diagnosis("run", (at("advantage_degeneracy", 60.0), at("collapsed", 40.0), instability))
    assert before.verdict == ("dynamical_instability", "advantage_degeneracy", "collapsed")
    assert after.verdict == ("dynamical_instability", "collapsed", "advantage_degeneracy")


def test_what_to_do_next_comes_first_and_names_the_step():
    fallen = np.concatenate((np.linspace(0.1, 0.6, 40), np.full(30, 0.01))) + noise(70, 0.01, 8)
    found = diagnose(curve(fallen), SETTINGS)
    assert "collapsed" in found.verdict
    assert "stalled" not in found.verdict
    assert verdict_lines(found)[-1].startswith("What to do next: Stop and restart from a checkpoint before step ")
    assert 36 <= float(verdict_lines(found)[-1].split("before step ")[1].split()[0]) <= 42
    quiet = diagnose(replace(curve(np.linspace(0.1, 0.6, 70) + noise(70, 0.01, 9))), SETTINGS)
    assert quiet.verdict == ("not_judged",)
    assert "held-out results" in quiet.next
