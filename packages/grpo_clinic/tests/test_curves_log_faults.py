"""Small logs that were once judged wrongly: real ones where a folder of them is at hand (environment variable
BANDIT_LAB_LOG_FAULTS), and the same kinds made here.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from grpo_clinic.diagnosis import DiagnoseSettings, diagnose
from grpo_clinic.diagnosis.divergence import judge as divergence
from grpo_clinic.diagnosis.excursions import swinging
from grpo_clinic.diagnosis.outcomes import collapsed
from grpo_clinic.monitor import Monitor
from grpo_clinic.readers import Curve, RewardScale, Series
from told import rows as rows_of

FOLDER = Path(os.environ.get("BANDIT_LAB_LOG_FAULTS", ""))
needs_folder = pytest.mark.skipif(
    "BANDIT_LAB_LOG_FAULTS" not in os.environ, reason="BANDIT_LAB_LOG_FAULTS names no folder of logs judged wrongly"
)
SETTINGS = DiagnoseSettings(surrogates=199)
DYNAMICS = {"dynamical_instability", "collapsed", "diverging"}


def curve(reward, scale=None, parts=(), **series):
    step = np.arange(1.0, len(reward) + 1)
    logged = {name: Series(step, np.asarray(value, float), name) for name, value in series.items()}
    reward = Series(step, np.asarray(reward, float), "reward")
    known = RewardScale.estimated(reward.value) if scale is None else RewardScale(*scale, True)
    own = {name: Series(step, np.asarray(value, float), name) for name, value in dict(parts).items()}
    return Curve("run", "file", "test", "TRL", reward, known, series=logged, parts=own)


def of_file(kind, name, **settings):
    (row,) = rows_of(FOLDER / kind / name, **settings)
    return row


@needs_folder
def test_a_short_collapse_in_the_folder_is_one():
    row = of_file("short-collapse-healthy", "runs.csv", group_size=8)
    assert "collapsed" in row["verdict"]
    assert "Stop" in row["next"]


@needs_folder
def test_a_rare_bonus_in_the_folder_is_noise():
    assert not DYNAMICS & {*of_file("rare-bonus-noise", "run.json")["verdict"]}


@needs_folder
def test_an_early_dip_in_the_folder_is_a_note():
    row = of_file("early-dip-then-quiet", "run.json")
    assert row["verdict"] in (["healthy"], ["not_judged"])
    assert any("died down" in remark for remark in row["remarks"])
    assert "checkpoint" not in row["next"]


@needs_folder
def test_a_gradient_that_awakes_in_the_folder_does_not_diverge():
    rows = [json.loads(line) for line in (FOLDER / "watch-diverging-from-zero" / "run.jsonl").read_text().splitlines()]
    monitor = Monitor()
    for row in rows:
        monitor.feed(row.pop("step"), row)
    assert not DYNAMICS & {*monitor.verdict}
    assert not DYNAMICS & {*of_file("watch-diverging-from-zero", "run.jsonl")["verdict"]}


@needs_folder
def test_a_reward_of_zero_in_the_folder_is_silent():
    row = of_file("zero-reward-silent", "run.jsonl", group_size=2)
    assert row["verdict"][0] == "advantage_degeneracy"
    assert "reward function" in row["next"]
    assert "learning rate" not in row["next"].partition("no learning rate helps")[0]


@needs_folder
def test_truncated_answers_in_the_folder_come_first():
    row = of_file("all-answers-truncated", "train.log")
    assert row["verdict"][0] == "truncated_answers"
    assert row["severity"]["truncated_answers"] == "failure"
    assert "length limit" in row["next"]


@needs_folder
def test_a_trap_in_a_log_of_the_folder_stands_beside_the_verdict():
    row = of_file("trap-in-log-not-in-verdict", "verl.log")
    assert any("raw reward" in text for text in row["traps"])
    assert "no_group_baseline" not in row["verdict"]


def test_a_short_run_that_falls_within_its_last_two_rows_has_collapsed():
    """One that loses its last row alone has not; and no number of the text is longer than six digits."""
    fallen = collapsed(curve([0.03, 0.22, 0.36, 0.41, 0.45, 0.44, 0.25, 0.003]), SETTINGS)
    assert fallen.present
    assert not collapsed(curve([0.4, 0.42, 0.39, 0.41, 0.4, 0.42, 0.41, 0.0]), SETTINGS).present
    for finding in (fallen, collapsed(curve(np.linspace(0.1, 0.9, 12)), SETTINGS)):
        assert all(len(word) < 12 for one in finding.evidence for word in one.text.split())


def noise(kind, points, seed):
    """Independent rewards around a constant mean."""
    rng = np.random.default_rng([seed, points])
    return {
        "rare bonus": lambda: 0.38 + 0.03 * rng.normal(size=points) + 0.25 * rng.binomial(8, 0.02, points),
        "rarer bonus": lambda: 0.38 + 0.03 * rng.normal(size=points) + 2.0 * (rng.random(points) < 0.004),
        "rare loss": lambda: 0.8 - 0.6 * (rng.random(points) < 0.03) + 0.02 * rng.normal(size=points),
        "few right of eight": lambda: rng.binomial(8, 0.02, points) / 8,
        "exponential": lambda: rng.exponential(0.2, points),
    }[kind]()


KINDS = ("rare bonus", "rarer bonus", "rare loss", "few right of eight", "exponential")


def called_unstable(kind, points, runs, seed):
    """Of so many runs of noise, those with swings or a collapse."""
    made = [curve(noise(kind, points, seed + run)) for run in range(runs)]
    return sum(swinging(one, SETTINGS).above or collapsed(one, SETTINGS).present for one in made)


@pytest.mark.parametrize("kind", KINDS)
def test_swings_and_collapses_hold_their_level_on_skewed_noise(kind):
    """60 runs of 100 points, seeds from 7000, three tests of level .005: at most 5 of 60 (by chance .03 %)."""
    assert called_unstable(kind, 100, 60, 7000) <= 5


def test_a_normal_error_does_not_hold_it(monkeypatch):
    """The planted defect: without the draws more than 5 of 60 runs of 500 points with a rare bonus are found."""
    assert called_unstable("rare bonus", 500, 60, 7000) <= 5
    monkeypatch.setattr("grpo_clinic.diagnosis.chance.judged", lambda score, p, level: score)
    assert called_unstable("rare bonus", 500, 60, 7000) > 5


@pytest.mark.nightly
@pytest.mark.parametrize("points", [30, 100, 500])
def test_the_whole_verdict_holds_its_level_on_skewed_noise(points):
    """300 runs, 60 of each kind, seeds from 8000. Five tests of level .005: 2.5 %, so at most 16 (by chance .3 %)."""
    found = [
        bool(DYNAMICS & {*diagnose(curve(noise(kind, points, 8000 + run)), SETTINGS).verdict})
        for kind in KINDS
        for run in range(60)
    ]
    assert sum(found) <= 16


def ring(points=300, lasting=False):
    t = np.arange(float(points))
    fade = 1.0 if lasting else np.exp(-t / 80)
    return np.clip(0.6 + 0.2 * fade * np.cos(2 * np.pi * t / 40) + 0.1 * (1 - np.exp(-t / 60)), 0, 1)


def test_swings_that_die_down_are_a_note_and_swings_that_go_on_a_failure():
    """Noise of .015, seeds 0 to 4."""
    for seed in range(5):
        rest = 0.015 * np.random.default_rng(seed).normal(size=300)
        faded, lasting = (diagnose(curve(ring(lasting=kind) + rest, (0, 1.2)), SETTINGS) for kind in (False, True))
        assert not DYNAMICS & {*faded.verdict}
        assert any("died down" in remark for remark in faded.remarks)
        assert lasting.verdict == ("dynamical_instability",)


def test_no_checkpoint_is_named_that_cannot_exist():
    """Swings from the first step on: start again. A collapse later on: before the step at which it set in."""
    rest = 0.015 * np.random.default_rng(1).normal(size=300)
    swings = diagnose(curve(ring(lasting=True) + rest, (0, 1.2)), SETTINGS)
    assert swings.next.startswith("Start again with half")
    path = np.concatenate((np.linspace(0.1, 0.6, 150), np.full(150, 0.02))) + rest
    assert "before step 1" in diagnose(curve(path, (0, 1)), SETTINGS).next
    assert "before step 1 " not in diagnose(curve(path, (0, 1)), SETTINGS).next


def test_a_gradient_that_awakes_is_no_divergence_and_one_that_explodes_is():
    """For `diagnose` and for `Monitor`: from 1e-6 to .1 while the reward begins to rise; from .1 to 40."""
    rng = np.random.default_rng(2)
    reward = np.concatenate((np.full(60, 0.1), np.linspace(0.1, 0.3, 30))) + 0.01 * rng.normal(size=90)
    awake, bursting = np.where(np.arange(90) < 60, 2e-6, 0.1), np.where(np.arange(90) < 60, 0.1, 40.0)
    for norm, expected in ((awake, False), (bursting, True)):
        assert divergence(curve(reward, grad_norm=norm), SETTINGS).present == expected
        monitor = Monitor()
        for step, (value, size) in enumerate(zip(reward, norm, strict=True), 1):
            monitor.update(step, reward=value, grad_norm=size)
        assert ("diverging" in monitor.verdict) == expected


@pytest.mark.parametrize(
    ("value", "todo"), [(0.0, "reward function"), (-1.0, "reward function"), (1.0, "harder prompts")]
)
def test_a_reward_that_never_moves_is_silent(value, todo):
    """At the best one there is nothing to learn; at another one the checker or the engine fails."""
    found = diagnose(curve(np.full(30, value)), SETTINGS)
    assert "advantage_degeneracy" in found.verdict
    assert todo in found.next


def test_truncation_is_a_failure_where_nothing_is_gained_or_a_part_lies_still():
    rest = 0.02 * np.random.default_rng(3).normal(size=60)
    rise, all_cut = np.linspace(0.2, 0.7, 60) + rest, np.ones(60)
    flat = diagnose(curve(0.3 + rest, truncation=all_cut), SETTINGS)
    assert flat.verdict[0] == "truncated_answers"
    assert "length limit" in flat.next
    still = diagnose(curve(rise, parts={"rewards/answer/mean": np.full(60, -0.5)}, truncation=all_cut), SETTINGS)
    assert still.severity["truncated_answers"][0] == "failure"
    gained = diagnose(curve(rise, truncation=all_cut), SETTINGS)
    assert gained.severity["truncated_answers"][0] == "note"
    assert "truncated_answers" not in diagnose(curve(0.3 + rest, truncation=0.3 * all_cut), SETTINGS).verdict


@pytest.mark.parametrize(
    "key",
    ["completions/clipped_ratio", "response_length/clip_ratio", "rollout/truncated_ratio",
     "ppo_actor/no_eos_ratios/avg"],
)  # fmt: skip
def test_every_trainers_share_of_truncated_answers_is_read(tmp_path, key):
    rows = [{"step": i, "reward": 0.3 + 0.01 * (i % 3), key: 0.97} for i in range(1, 41)]
    (tmp_path / "run.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (row,) = rows_of(tmp_path / "run.jsonl")
    assert row["verdict"][0] == "truncated_answers"


VERL = """(TaskRunner pid=9) {{'actor_rollout_ref': {{'actor': {{'ppo_epochs': 1, 'ppo_mini_batch_size': 2}},
(TaskRunner pid=9)                        'rollout': {{'n': {size}}}}},
(TaskRunner pid=9)  'algorithm': {{'adv_estimator': 'grpo'}},
(TaskRunner pid=9)  'data': {{'train_batch_size': 2}}}}
"""


@pytest.mark.parametrize("size", [1, 8])
def test_settings_in_a_log_tell_the_trap_and_the_group_size(tmp_path, size):
    """Rewards of .01: groups of eight are silent in at least 92 % of cases, which only the log's G tells."""
    line = "(TaskRunner pid=9) step:{0} - actor/entropy:0.2 - training/global_step:{0} - critic/rewards/mean:{1}\n"
    rng = np.random.default_rng(4)
    rows = "".join(line.format(step, 0.02 + 0.25 * (step == 3) - 0.01 * rng.random()) for step in range(1, 41))
    (tmp_path / "verl.log").write_text(VERL.format(size=size) + rows)
    (row,) = rows_of(tmp_path / "verl.log")
    assert any("raw reward" in text for text in row["traps"]) == (size == 1)
    if size == 8:
        assert "advantage_degeneracy" in row["verdict"]
