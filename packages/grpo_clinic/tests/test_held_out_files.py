"""Held-out results in a file of their own: joined by step, said where from, and enough to tell reward hacking."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from grpo_clinic.__main__ import BAD_INPUT, main
from grpo_clinic.readers import read

STEP = np.arange(1, 61)
AT = [10, 20, 30, 40, 50, 60]
FOLLOWS, PARTS = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [0.2, 0.4, 0.55, 0.4, 0.25, 0.1]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_run(name="run.json"):
    noise = 0.02 * np.random.default_rng(5).normal(size=STEP.size)
    rows = [{"step": int(s), "reward_mean": float(0.1 + 0.01 * s + e)} for s, e in zip(STEP, noise, strict=True)]
    Path(name).write_text(json.dumps(rows))
    return name


def write_results(name="lr=1 eval.json", values=FOLLOWS):
    rows = [{"n_problems": 100, "accuracy": v, "step": s} for s, v in zip(AT, values, strict=True)]
    Path(name).write_text(json.dumps(rows))
    return name


def judged(*given):
    assert main(["diagnose", *given, "--json", "out.json"]) == 0
    return json.loads(Path("out.json").read_text())


def test_results_are_joined_by_step_with_their_origin():
    (curve,) = read(write_run(), eval_path=write_results())
    assert curve.eval.step.tolist() == AT
    assert curve.eval.value.tolist() == FOLLOWS
    assert curve.eval.key == "accuracy"
    assert "from lr=1 eval.json" in curve.eval.notes
    assert any("lr=1 eval.json" in note for note in curve.notes)
    np.testing.assert_array_equal(curve.reward, read("run.json")[0].reward)


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([{"step": s, "type": t, "reward": s / 60} for s in AT for t in ("train", "eval")], "reward"),
        ([{"step": s, "log_type": t, "reward": s / 60} for s in AT for t in ("train", "eval")], "reward"),
        ([{"step": s, "reward": 0.9, "eval_reward": s / 60} for s in AT], "eval_reward"),
        ([{"step": s, "loss": 1.0, "math_score": s / 60} for s in AT], "math_score"),
    ],
)
def test_of_a_mixed_file_the_held_out_part_counts(rows, key):
    Path("other.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (curve,) = read(write_run(), eval_path="other.jsonl")
    assert curve.eval.key == key
    np.testing.assert_allclose(curve.eval.value, np.array(AT) / 60)


def test_the_key_can_be_named_and_belongs_to_that_file():
    (curve,) = read(write_run(), eval_path=write_results(), eval_key="n_problems")
    assert curve.eval.key == "n_problems"
    with pytest.raises(ValueError, match="eval_key: expected a column of the log, got 'pass'"):
        read(write_run(), eval_path="lr=1 eval.json", eval_key="pass")


@pytest.mark.parametrize(("values", "hacked"), [(FOLLOWS, False), (PARTS, True)])
def test_hacking_is_judged_from_them(values, hacked):
    """The planted defect: a held-out result that turns back while the training reward goes on."""
    (alone,) = judged(write_run())
    assert not any(one["verdict"] == "reward_hacking" for one in alone["evidence"])
    (row,) = judged("run.json", "--eval-path", write_results(values=values))
    assert ("reward_hacking" in row["verdict"]) == hacked


def test_a_table_of_runs_names_them():
    write_run("a.json")
    write_run("b.json")
    write_run("c.json")
    rows = json.loads(Path(write_run("d.json")).read_text())
    Path("d.json").write_text(json.dumps(rows[:20] + rows))  # begun again: the last counts
    Path("b.entropy.json").write_text(json.dumps([{"step": int(s), "entropy": 1 / s} for s in STEP]))
    write_results("a.eval.json", PARTS)
    with open("index.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run_id", "file", "eval_curve"])
        table.writerow(["a", "a.json", "a.eval.json"])
        table.writerow(["b", "b.json", "none; entropy in the .entropy.json"])
        table.writerow(["c", "c.json", "gone.json"])
        table.writerow(["d", "d.json", "none"])
    a, b, c, d = judged("--logs-index", "index.csv")
    assert a["verdict"] == ["reward_hacking"]
    assert "policy_concentration" in b["verdict"]
    assert not any(one["verdict"] == "reward_hacking" for one in c["evidence"])
    assert any("gone.json" in text for text in c["remarks"])
    assert d["n_points"] == len(rows)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["run.json", "--eval-path", "none.json"], "diagnose: eval_path: none.json: expected a readable file"),
        (["run.json", "--beside", "none.csv"], "diagnose: beside: none.csv: expected a readable file"),
        (["run.json", "--eval-path", "run.txt"], "eval_path"),
        (["run.json", "two.json", "--eval-path", "run.json"], "eval_path: expected one"),
        (["--logs-index", "index.csv", "--eval-path", "run.json"], "eval_path: expected one run"),
    ],
)
def test_bad_ones_are_one_line(given, complaint, capsys):
    write_run()
    write_run("two.json")
    Path("run.txt").write_text("step,loss\n1,2\n2,3\n")
    Path("index.csv").write_text("file\nrun.json\n")
    assert main(["diagnose", *given]) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert complaint in error
