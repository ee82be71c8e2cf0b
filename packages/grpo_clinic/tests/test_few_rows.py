"""One row is enough where one row proves something; several runs in one file are several runs."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from grpo_clinic.__main__ import main
from grpo_clinic.monitor import Monitor
from grpo_clinic.readers import read
from told import rows as rows_of

PASTED = os.environ.get("BANDIT_LAB_PASTED_CASES")
BROKEN = {"sampling/importance_sampling_ratio/mean": 3e-7, "sampling/sampling_logp_difference/mean": 0.81}
GOOD = {"sampling/importance_sampling_ratio/mean": 0.98, "sampling/sampling_logp_difference/mean": 0.02}
ROWS = {
    "the engine has other weights": ([{"reward": 0.3, **BROKEN}], "sampler_mismatch"),
    "a gradient that is not finite": ([{"reward": 0.3, "loss": 0.1, "grad_norm": "nan"}], "diverging"),
    "all groups silent": ([{"reward": 4.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0}], "advantage_degeneracy"),
    "every answer cut off": ([{"reward": 0.0, "completions/clipped_ratio": 1.0}], "truncated_answers"),
    "few rewards": ([{"reward": r} for r in (0.3, 0.4, 0.01, 0.0)], "nothing"),
    "nothing is wrong": ([{"reward": 0.3, "grad_norm": 0.2, "frac_reward_zero_std": 0.2, **GOOD}], "nothing"),
    "one row at zero": ([{"reward": r} for r in (0.3, 0.4, 0.35, 0.0)], "nothing"),
}


def judged(rows, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"step": n, **row}) for n, row in enumerate(rows)))
    (result,) = rows_of(str(log))
    return result


@pytest.mark.parametrize("name", ROWS)
def test_few_rows_say_what_they_prove(name, tmp_path):
    rows, verdict = ROWS[name]
    named = judged(rows, tmp_path)["verdict"]
    assert verdict in named or (verdict == "nothing" and not named)


@pytest.mark.parametrize("lost", ["grad_norm", "reward"])
def test_what_a_trainer_prints_as_nan_is_not_dropped(lost, tmp_path):
    """Of TRL's console, which holds no step: the end of the log tells that the run is lost."""
    healthy = {"loss": 0.1, "reward": 0.5, "grad_norm": 0.3}
    rows = [*20 * [healthy], *3 * [healthy | {lost: np.nan}]]
    log = tmp_path / "out.log"
    log.write_text("\n".join(str(row) for row in rows))
    (result,) = rows_of(str(log))
    assert "diverging" in result["verdict"] or "collapsed" in result["verdict"]


@pytest.mark.parametrize("key", ["proxy_minus_gold_reward", "reward_gap", "share_scored_at_least_0.99"])
def test_a_difference_of_rewards_is_no_reward(key, tmp_path):
    with pytest.raises(ValueError, match="expected a log with a reward column, got none"):
        judged([{key: 0.1 * n} for n in range(20)], tmp_path)


@pytest.mark.parametrize(
    ("keys", "share"),
    [
        (("env/all/by_group/frac_all_good", "env/all/by_group/frac_all_bad"), 0.9),
        (("baseline_reward/pct_1", "baseline_reward/pct_0"), 0.9),
        (("zero_advantage_frac",), 0.45),
    ],
)
def test_silent_groups_in_two_columns_are_added(keys, share, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"step": n, "reward": 0.3, **dict.fromkeys(keys, 0.45)}) for n in range(9)))
    (curve,) = read(log)
    np.testing.assert_allclose(curve.series["zero_std_frac"].value, share)


@pytest.mark.skipif(PASTED is None, reason="BANDIT_LAB_PASTED_CASES names no folder of pasted logs")
@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("trl5312_sleep_mode_broken", "sampler_mismatch"),
        ("marinfold236_weight_sync", "sampler_mismatch"),
        ("unsloth3485_saturated_groups", "advantage_degeneracy"),
        ("marinfold237_mf_divergence", "collapsed"),
        ("verl7749_healthy_control", "nothing"),
        ("trl3452_loss_zero_but_learning", "nothing"),
    ],
)
def test_pasted_cases(case, verdict, monkeypatch, tmp_path, capsys):
    text = (Path(PASTED) / f"{case}.jsonl").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["diagnose", "-", "--json", str(tmp_path / "out.json")]) == 0
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert (verdict in row["verdict"]) if verdict != "nothing" else not row["verdict"]
    assert row["log"] == "pasted"


def written(path, *runs, **more):
    rows = [{"step": n, "reward": value, **more} for run in runs for n, value in enumerate(run, 1)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return read(path)


def test_runs_one_after_the_other_are_not_averaged(tmp_path):
    flat, rise = np.full(30, 0.12), np.linspace(0.3, 0.87, 40)
    first, second = written(tmp_path / "run.jsonl", flat.tolist(), rise.tolist())
    np.testing.assert_allclose(first.reward, flat)
    np.testing.assert_allclose(second.reward, rise)
    assert (first.name, second.name) == ("run (run 1 of 2)", "run (run 2 of 2)")
    assert first.restarted
    assert second.restarted


def test_a_start_of_a_few_rows_is_left_out(tmp_path):
    (only,) = written(tmp_path / "run.jsonl", [0.1] * 7, np.linspace(0.3, 0.87, 40).tolist())
    assert only.reward.size == 40
    assert not only.restarted
    assert len(written(tmp_path / "run.jsonl", [0.1] * 8, np.linspace(0.3, 0.87, 40).tolist())) == 2


def test_a_checkpoint_and_an_epochs_counter_are_one_run(tmp_path):
    """Steps that go back to 20 of 40, and a counter of batches beside an epoch that rises."""
    rise = np.linspace(0.1, 0.9, 40)
    rows = [{"step": n, "reward": rise[n]} for n in (*range(40), *range(20, 40))]
    back = tmp_path / "back.jsonl"
    back.write_text("\n".join(map(json.dumps, rows)))
    assert len(read(back)) == 1
    rows = [{"step": n, "epoch": epoch, "reward": 0.1 * epoch} for epoch in range(3) for n in range(20)]
    epochs = tmp_path / "epochs.jsonl"
    epochs.write_text("\n".join(map(json.dumps, rows)))
    assert len(read(epochs)) == 1


def test_a_ratio_of_0_is_none(tmp_path):
    """Rows in which nobody filled it, of a file and of a monitor."""
    rows = [{"step": n, "reward": 0.3, "sampling/importance_sampling_ratio/mean": float(n % 2)} for n in range(8)]
    (tmp_path / "log.json").write_text(json.dumps({"log_history": rows}))
    monitor = Monitor()
    for row in rows:
        monitor.feed(row["step"], row)
    for curve in (read(tmp_path / "log.json")[0], monitor.curve()):
        assert curve.series["importance_ratio"].value.tolist() == [1.0] * 4
