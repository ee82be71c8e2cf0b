"""A finding is a note where it has done no harm that shows, and a failure where it has."""

from dataclasses import replace

import numpy as np
import pytest
from grpo_clinic.diagnosis import DiagnoseSettings, diagnose
from grpo_clinic.readers.record import Curve, RewardScale, Series

STEP = np.arange(1.0, 121)
NOISE = 0.02 * np.random.default_rng(8).normal(size=STEP.size)
FEW = DiagnoseSettings(surrogates=19)


def a_run(reward, evaluation=None, **series):
    held_out = None if evaluation is None else Series(STEP[9::10], evaluation[9::10], "eval_reward")
    columns = {name: Series(STEP, values, name) for name, values in series.items()}
    return Curve("run", "", "", "TRL", Series(STEP, reward + NOISE, "reward"), RewardScale(0, 1, True),
                 "optimiser step", series=columns, eval=held_out)  # fmt: skip


def saturating(top):
    return top - (top - 0.1) * np.exp(-STEP / 15)


LOST = {"entropy": np.exp(-STEP / 20)}
SILENT = {"zero_std_frac": 0.9 + 0 * STEP}
FALLING = saturating(0.8) - 0.002 * np.maximum(STEP - 50, 0)


@pytest.mark.parametrize(
    ("run", "failure", "grade", "reason"),
    [
        (a_run(saturating(0.8), **LOST), "policy_concentration", "note", "holds in the upper half"),
        (a_run(0.1 + 0.003 * STEP, **LOST), "policy_concentration", "note", "still rises"),
        (a_run(saturating(0.3), **LOST), "policy_concentration", "failure", "does not rise any more"),
        (a_run(FALLING, **LOST), "policy_concentration", "failure", "reward has fallen"),
        (a_run(saturating(0.8), FALLING, **LOST), "policy_concentration", "failure", ""),
        (a_run(0.1 + 0.003 * STEP, **SILENT), "advantage_degeneracy", "note", "still rises"),
        (a_run(0.3 + 0 * STEP, **SILENT), "advantage_degeneracy", "failure", "does not rise any more"),
    ],
)
def test_grade_and_reason(run, failure, grade, reason):
    found = diagnose(run, FEW)
    assert failure in found.verdict
    assert found.severity[failure][0] == grade
    assert reason in found.severity[failure][1]
    assert (failure in found.notes) == (grade == "note")
    if reason:
        assert any(reason in text for text in found.remarks)


def test_the_grade_does_not_touch_verdict_and_scores():
    """The same entropy beside a reward that holds and one that falls: one score, two grades."""
    good, bad = diagnose(a_run(saturating(0.8), **LOST), FEW), diagnose(a_run(FALLING, **LOST), FEW)
    assert good.scores["policy_concentration"] == bad.scores["policy_concentration"]
    assert good.notes != bad.notes


def test_beside_a_failure_nothing_is_a_mere_note():
    collapsed = np.where(STEP < 90, saturating(0.8), 0.1)
    found = diagnose(a_run(collapsed, **LOST), FEW)
    assert set(found.verdict) == {"policy_concentration", "dynamical_instability", "collapsed"}
    assert found.notes == ()


def test_healthy_and_hacked_runs_have_no_note():
    assert diagnose(a_run(saturating(0.8)), FEW).severity == {}
    hacked = diagnose(a_run(saturating(0.8), 0.6 - 0.5 * STEP / 120), FEW)
    assert hacked.severity == {"reward_hacking": ("failure", "")}


def test_a_gain_is_told_from_noise():
    """The smaller of two noise levels: one outlier-free rise in few points counts, a flat curve does not."""
    assert diagnose(a_run(saturating(0.8)), FEW).gained
    assert not diagnose(a_run(0.3 + 0 * STEP), FEW).gained
    jumps = 0.2 + 0.3 * (STEP > 60) + 0.1 * np.sin(2.1 * STEP) * (np.abs(STEP - 60) < 30)
    curve = a_run(jumps)
    assert diagnose(replace(curve, name="x"), FEW).gained
