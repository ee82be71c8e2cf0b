"""No all-clear for what was not looked at, and nothing proved by a column that nobody filled."""

import json

import numpy as np
import pytest
from grpo_clinic import readers as reading
from grpo_clinic.diagnosis import DiagnoseSettings
from grpo_clinic.monitor import Monitor
from grpo_clinic.readers import front
from told import rows as rows_of

STEP = np.arange(1, 61)
RISING = 0.2 + 0.6 * (1 - np.exp(-STEP / 15)) + 0.02 * np.random.default_rng(1).normal(size=STEP.size)
LEVEL = 0.4 + 0.02 * np.random.default_rng(2).normal(size=STEP.size)


def judged(folder, **columns):
    """The row of `diagnose` for a log of these columns, numbers or [60]."""
    every = {"step": STEP} | {key: np.broadcast_to(value, STEP.shape) for key, value in columns.items()}
    rows = [{key: float(value[place]) for key, value in every.items()} for place in range(len(STEP))]
    path = folder / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return rows_of(str(path))[0]


def test_a_ratio_that_is_zero_in_every_row_was_not_filled(tmp_path):
    key = "sampling/importance_sampling_ratio/mean"
    assert "sampler_mismatch" not in judged(tmp_path, reward=RISING, **{key: 0.0})["verdict"]
    assert "sampler_mismatch" in judged(tmp_path, reward=RISING, **{key: 0.3})["verdict"]


def test_a_column_that_is_not_there_is_not_logged(tmp_path):
    """Half of what Tinker logs of its silent groups is no share of them; both halves are."""
    good, bad = "env/all/by_group/frac_all_good", "env/all/by_group/frac_all_bad"
    alone = judged(tmp_path, **{"env/all/reward/total": RISING, good: 0.1})
    assert any("no share of silent groups is logged" in text for text in alone["not_logged"])
    both = judged(tmp_path, **{"env/all/reward/total": LEVEL, good: 0.0, bad: 0.9})
    assert "advantage_degeneracy" in both["verdict"]


@pytest.mark.parametrize("fault", [KeyError("x"), IndexError("x"), TypeError("x"), AttributeError("x")])
def test_a_fault_of_a_reader_fails_here_and_is_said_to_be_ours_elsewhere(fault, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_text("step,reward\n" + "".join(f"{n},{0.1 * n}\n" for n in range(12)))

    def broken(*args, **rest):
        raise fault

    monkeypatch.setattr(front, "_read_file", broken)
    with pytest.raises(type(fault)):
        reading.read(str(path))
    monkeypatch.setattr(front, "STRICT", False)
    with pytest.raises(ValueError, match="a fault of this program"):
        reading.read(str(path))


@pytest.mark.parametrize(("share", "grade"), [(0.87**2 + 0.13**2, "note"), (0.99, "failure")])
def test_silence_of_a_solved_task_counts_beyond_what_success_gives(share, grade, tmp_path):
    """G = 2 at a reward of .87: independent answers make .77 of the groups silent. All of them silent is more."""
    high = 0.87 + 0.005 * np.random.default_rng(3).normal(size=STEP.size)
    columns = {"reward": np.clip(high, 0, 1), "frac_reward_zero_std": share}
    path = tmp_path / "log.jsonl"
    rows = [
        {"step": int(n)} | {k: float(np.broadcast_to(v, STEP.shape)[n - 1]) for k, v in columns.items()} for n in STEP
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    settings = {"group_size": 2, "reward_scale": (0, 1), "limits": DiagnoseSettings(solved_share=0.95)}
    (row,) = rows_of(str(path), **settings)
    assert row["severity"]["advantage_degeneracy"] == grade


def control(**columns):
    """A control run of twenty steps in which everything that the recipe names is logged and right."""
    right = {
        "learning_rate": 0.0,
        "entropy": 0.7,
        "completions/mean_length": 120.0,
        "completions/clipped_ratio": 0.1,
        "kl": 0.0,
        "clip_ratio/region_mean": 0.0,
        "grad_norm": 0.3,
        "sampling/sampling_logp_difference/mean": 0.01,
    }
    return {"reward": LEVEL} | right | columns


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, "The plumbing that a control run tests is in order"),
        ({"sampling/sampling_logp_difference/mean": 0.19}, "stands at 0.19 and must stay level, below 0.1 nats"),
        ({"clip_ratio/region_mean": 0.046}, "stands at 0.046 and must stay at 0: no ratio leaves 1"),
        ({"kl": None}, "not logged: kl"),
        ({"sampling/sampling_logp_difference/mean": None}, "log-probabilities of engine and trainer"),
    ],
)
def test_a_control_run_is_cleared_of_what_was_read_and_is_right_alone(columns, told, tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_clinic.diagnosis.plumbing._LONGEST", len(STEP))
    every = {key: value for key, value in control(**columns).items() if value is not None}
    row = judged(tmp_path, **every)
    assert told in row["next"]
    assert ("is in order" in row["next"]) == (not columns)
    assert row["verdict"] == ["not_judged"]


def test_a_healthy_run_is_told_what_was_looked_at_and_what_was_not(tmp_path):
    row = judged(tmp_path, reward=RISING, entropy=0.7, effective_sample_size=0.1, rollout_age=7.0)
    assert row["verdict"] == ["healthy"]
    assert "Nothing that was looked at asks for a change: reward, entropy." in row["next"]
    assert "Logged and not judged: effective_sample_size, rollout_age." in row["next"]


def test_a_group_of_one_is_a_trap_beside_the_verdict(tmp_path):
    fallen = np.where(STEP < 30, RISING, 0.05)
    path = tmp_path / "log.jsonl"
    path.write_text(
        "\n".join(json.dumps({"step": int(n), "reward": float(r)}) for n, r in zip(STEP, fallen, strict=True))
    )
    (row,) = rows_of(str(path), group_size=1)
    assert "collapsed" in row["verdict"]
    assert "no_group_baseline" not in row["verdict"]
    assert any("no group" in text for text in row["traps"])


@pytest.mark.parametrize("rate", [1e-17, 0.0, 1.0])
def test_a_rate_of_false_alarms_that_no_normal_law_has_is_refused_at_once(rate):
    with pytest.raises(ValueError, match=r"^false_alarm: expected a number in \[1e-12, 1\)"):
        Monitor(false_alarm=rate)
    monitor = Monitor(false_alarm=1e-12)
    for step in range(200):
        monitor.feed(step, {"reward": 0.5})
