"""`diagnose` as a person meets it: verdicts on logs with planted failures, pages, tables, bad input."""

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from bandit_lab.app.cli import BAD_INPUT, INCOMPLETE, OK, main
from bandit_lab.runs.diagnose import diagnose
from bandit_lab.runs.diagnose.first_screen import key_numbers
from bandit_lab.runs.diagnose.plot import diagnosis_figure
from bandit_lab.runs.logs.findings import BRIEF, begun
from bandit_lab.runs.read import read

POINTS = 100
STEP = np.arange(1, POINTS + 1)
ROW = {"log", "n_points", "verdict", "scores", "evidence", "missing", "traps", "status"}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


def rising(seed=0):
    """From 0.2 to 0.7 with white noise [POINTS]."""
    return 0.7 - 0.5 * np.exp(-STEP / 20) + 0.03 * np.random.default_rng(seed).normal(size=POINTS)


def write_log(path, reward=None, evaluation=None, **series):
    """A trainer_state.json with a reward, further series and an evaluation every ten steps."""
    reward = rising() if reward is None else reward
    rows = []
    for place, step in enumerate(STEP.tolist()):
        rows.append({"step": step, "reward": float(reward[place]), **{k: float(v[place]) for k, v in series.items()}})
        if evaluation is not None and step % 10 == 0:
            rows.append({"step": step, "eval_reward": float(evaluation[place])})
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps({"log_history": rows}))
    return str(path)


def run(*given, code=OK):
    """Run `diagnose` into ./out; returns the summary."""
    assert main(["diagnose", *given, "run_dir=out", "overwrite=true"]) == code
    return json.loads(Path("out/summary.json").read_text(), parse_constant=pytest.fail) if code != BAD_INPUT else None


def planted():
    """Failure -> a log that has it."""
    turned = np.where(STEP < 50, 0.2 + 0.008 * STEP, 0.6 - 0.006 * (STEP - 50))
    collapsed = np.where(STEP < 70, rising(), 0.2)
    return {
        "reward_hacking": {"reward": 0.2 + 0.005 * STEP, "evaluation": turned},
        "advantage_degeneracy": {"reward": 0.4 + 0 * rising(), "frac_reward_zero_std": 0.95 + 0 * STEP},
        "policy_concentration": {"entropy": np.exp(-STEP / 15)},
        "dynamical_instability": {"reward": collapsed},
    }


OUTCOME = {"advantage_degeneracy": ["stalled"], "dynamical_instability": ["collapsed"]}
"""What became of the planted runs besides."""


@pytest.mark.parametrize("failure", planted())
def test_a_planted_failure_is_the_verdict(failure):
    (row,) = run(write_log("run.json", **planted()[failure]), "report=false")["logs"]
    assert row["verdict"] == [failure, *OUTCOME.get(failure, [])]
    assert row["next"].count(".") >= 1
    assert row["scores"][failure] >= 1
    assert any(one["failure"] == failure for one in row["evidence"])


def test_a_healthy_run_with_pages(capsys):
    path = write_log("a folder/lr=1e-5 (copy).json", evaluation=rising(1), entropy=1 - 0.003 * STEP)
    (row,) = run(path, "group_size=8", "reward_scale=[0,1]")["logs"]
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "out"
    assert "healthy" in out
    assert set(row) >= ROW
    assert row["verdict"] == ["healthy"]
    assert row["missing"] == ["no share of truncated answers is logged: whether they are cut off cannot be judged"]
    for one in row["evidence"]:
        assert set(one) >= {"metric", "window", "value", "threshold"}
    page = (Path("out") / row["page"]).read_text()
    assert 'src="data:image/png;base64,' in page
    assert not re.search(r"<script|https?:|<link", page)
    assert json.loads(Path("out/manifest.json").read_text())["command"] == "diagnose"


def test_what_the_log_lacks_is_null_with_the_reason():
    (row,) = run(write_log("run.json"), "report=false")["logs"]
    assert row["scores"]["policy_concentration"] is None
    assert "entropy" in row["scores"]["policy_concentration_reason"]
    assert any("held-out" in text for text in row["missing"])
    assert row["scores"]["dynamical_instability"] is not None


def test_a_run_of_which_little_could_be_judged_is_not_called_healthy(capsys):
    """The reward alone tells of instability only; held-out results and entropy beside it make it healthy."""
    path = write_log("run.json")
    (row,) = run(path, "reward_scale=[0,1]")["logs"]
    assert [row["scores"][name] is None for name in planted()] == [True, True, True, False]
    assert row["verdict"] == ["not_judged"]
    assert "5 of 8 not judged" in capsys.readouterr().out
    page = (Path("out") / row["page"]).read_text()
    assert "in what the log holds; 5 of 8 not judged." in page
    assert page.index("What to do next: Log held-out results") < page.index("<img")
    assert main(["fit", path, "models=[sigmoid]", "pictures=false", "run_dir=fitted"]) == OK
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "not judged" in line]
    assert line.split()[-5:] == ["5", "of", "8", "not", "judged"]
    run(write_log("run.json", evaluation=rising(1), entropy=1 - 0.003 * STEP), "reward_scale=[0,1]", "report=false")
    assert "of 7 not judged" not in capsys.readouterr().out


def test_a_table_of_runs_puts_its_outcome_beside_the_verdict(capsys):
    for name, what in planted().items():
        write_log(f"{name}.json", **what)
    with open("index.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["run_id", "file", "G", "outcome"])
        table.writerows([[name, f"{name}.json", "8", f"saw {name[:6]}"] for name in planted()])
        table.writerow(["gone", "gone.json", "", "lost"])
    rows = run("logs_index=index.csv", code=INCOMPLETE)["logs"]
    assert [row["verdict"] for row in rows[:-1]] == [[name, *OUTCOME.get(name, [])] for name in planted()]
    assert rows[-1]["verdict"] is None
    assert rows[-1]["status"].startswith("no curve")
    assert all(row["outcome"].startswith("saw ") for row in rows[:-1])
    grades = {name: row["severity"][name] for row, name in zip(rows[:-1], planted(), strict=True)}
    assert grades == dict.fromkeys(planted(), "failure") | {"policy_concentration": "note"}
    assert Path("out/diagnoses.png").stat().st_size > 10_000
    overview = Path("out/report/index.html").read_text()
    assert overview.count("<img") == 1
    for name in planted():
        assert f'href="{name}.html"' in overview
    out = " ".join(capsys.readouterr().out.split())
    assert "saw reward" in out
    assert all(f"{brief}: {name.replace('_', ' ')}" in out for name, brief in BRIEF.items() if brief in out.split())


def test_the_results_are_a_labelled_data_set():
    paths = [write_log(f"{name}.json", **what) for name, what in planted().items()]
    rows = run(*paths, "report=false", "pictures=false")["logs"]
    found = xarray.open_zarr("out/results.zarr").load()
    assert found.failure.values.tolist() == [*planted(), "stalled", "collapsed", "diverging", "truncated_answers"]
    for row in rows:
        one = found.sel(run=row["log"])
        np.testing.assert_array_equal(one.fires, [name in row["verdict"] for name in found.failure.values])
        scores = [row["scores"][name] for name in found.failure.values]
        np.testing.assert_array_equal(one.judged, [score is not None for score in scores])
        np.testing.assert_allclose(one.score, np.array(scores, float))
        assert all(one.reason.values[~one.judged.values])
        assert str(one.verdict.values) == ", ".join(row["verdict"])
        for entry in row["evidence"]:
            at = one.sel(measure=f"{entry['failure']}:{entry['metric']}")
            assert float(at["value"]) == entry["value"]
            assert str(at["evidence"].values) == entry["text"]
    lost = found.sel(run="policy_concentration", failure="policy_concentration")
    assert float(lost.statistic) < float(lost.threshold) == 0.15
    assert str(lost.severity.values) == "note"
    assert not Path("out/diagnoses.png").exists()


def test_a_note_is_read_as_one(capsys):
    """The entropy is lost while the reward holds: named, but as a note, in the table, the summary and the page."""
    (row,) = run(write_log("run.json", entropy=np.exp(-STEP / 15)), "reward_scale=[0,1]")["logs"]
    assert row["verdict"] == ["policy_concentration"]
    assert row["severity"] == {"policy_concentration": "note"}
    assert "note: policy concentration" in capsys.readouterr().out
    assert "A note: Policy concentration" in (Path("out") / row["page"]).read_text()


def test_a_hostile_name_is_text_in_every_page():
    run(write_log("<script>alert(1)<b> @all `x`.json"))
    for path in Path("out/report").iterdir():
        assert "<script" not in path.read_text()


def test_a_configuration_tells_group_size_and_traps():
    Path("config.yaml").write_text(
        "actor_rollout_ref:\n  rollout:\n    n: 1\n  actor:\n    ppo_mini_batch_size: 64\n"
        "data:\n  train_batch_size: 64\nalgorithm:\n  adv_estimator: grpo\n"
    )
    (row,) = run(write_log("run.json"), "config=config.yaml", "report=false")["logs"]
    assert any("baseline" in text for text in row["traps"])


def test_nothing_learned_is_said():
    flat = 0.3 + 0.05 * np.random.default_rng(3).normal(size=POINTS)
    (row,) = run(write_log("run.json", reward=flat), "report=false")["logs"]
    assert any("nothing was learned" in text for text in row["remarks"])
    (row,) = run(write_log("run.json"), "report=false")["logs"]
    assert not any("nothing was learned" in text for text in row["remarks"])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["nothing_here.json"], "nothing_here.json"),
        (["run.json", "swing_share=2"], "swing_share: expected a number in (0, 1), got 2.0"),
        (["simulated=held_out"], "simulated: expected a setting of diagnose (that is now python experiments/grading/d"),
        (["run.json", "surrogates=3"], "surrogates"),
    ],
)
def test_bad_input_is_one_line(given, complaint, capsys):
    write_log("run.json")
    run(*given, code=BAD_INPUT)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert complaint in error


VERDICTS = {
    "rises to 0.44 then collapses to 0": {"dynamical_instability"},
    "then collapses to 0 in the last": {"dynamical_instability"},
    "peaks then declines": {"dynamical_instability"},
    "advantage degeneracy: frac_reward_zero_std": {"advantage_degeneracy"},
    "slow start, rise, plateau": {"healthy", "not_judged"},
    "rising/saturating": {"healthy", "not_judged"},
    "noisy": {"healthy", "not_judged", "stalled"},
}
"""What the table of real runs says of a run, and the verdicts that agree with it, notes left out: where the entropy is
lost and the reward holds, concentration is no more than a note. The known false alarms are counted in
figures/real_verdicts.json."""


@pytest.mark.nightly
@pytest.mark.skipif("BANDIT_LAB_LOGS" not in os.environ, reason="BANDIT_LAB_LOGS names no folder of real logs")
def test_verdicts_on_real_runs_agree_with_what_a_person_saw():
    rows = run(f"logs_index={os.environ['BANDIT_LAB_LOGS']}/index.csv", "report=false", code=INCOMPLETE)["logs"]
    judged = [row for row in rows if row["verdict"] is not None]
    assert len(judged) >= 60
    for row in judged:
        for text, allowed in VERDICTS.items():
            if text in row["outcome"]:
                harm = {name for name in row["verdict"] if row["severity"].get(name) != "note"} or {"healthy"}
                assert allowed & harm, row["log"]
    hacked = next(row for row in judged if "hard-coded" in row["outcome"])
    assert hacked["scores"]["reward_hacking"] is None  # in no logged metric, and said so
    lone = next(row for row in judged if row["log"] == "uqcxu9.train_v6_reward")
    assert any("group size 1" in text for text in lone["traps"])
    assert {row["log"]: row["scores"]["reward_hacking"] for row in judged if row["log"].startswith("tonywang")} == {
        row["log"]: 0 for row in judged if row["log"].startswith("tonywang")
    }  # eval_curve names their held-out results, which follow the reward
    idle = next(row for row in judged if "no learning" in row["outcome"])
    assert any("nothing was learned" in text for text in idle["remarks"])


def test_two_runs_are_compared_side_by_side_first_of_all(capsys):
    """One rises, one collapses; learning rates 1e-6 and 4e-6 in both logs, another setting in one of them alone."""
    collapsed = np.where(STEP < 70, rising(), 0.2)
    slow, fast = (
        write_log(f"lr_{name}.json", reward, learning_rate=rate + 0 * STEP, num_iterations=2 + 0 * STEP)
        for name, reward, rate in (("slow", rising(), 1e-6), ("fast", collapsed, 4e-6))
    )
    found = run(slow, fast)
    table = {row["quantity"]: (row["run_1"], row["run_2"]) for row in found["compared"]}
    assert "collapsed" in table["what became of it"][1]
    assert "collapsed" not in table["what became of it"][0]
    assert table["last reward"] == (pytest.approx(0.7, abs=0.02), pytest.approx(0.2))
    assert table["best reward"][0] >= table["last reward"][0]
    assert table["learning rate"] == (1e-6, 4e-6)
    out = capsys.readouterr().out
    assert out.index("what became of it") < out.index("degeneracy   ")
    page = Path("out/report/index.html").read_text()
    assert page.index("<img") < page.index("<details>")
    assert page.count("<img") == 1 + page.partition("<summary>logs")[2].count("<img")
    assert "lr_slow.html" in page.partition("<summary>logs")[2]
    assert "compared" not in run(slow, "report=false")
    assert "compared" not in run(slow, fast, write_log("third.json"), "report=false")


def test_settings_that_differ_are_listed_and_equal_ones_not():
    text = "{'loss': 0.0, 'reward': %r, 'step': %d}\n"
    for name, size in (("a", 4), ("b", 16)):
        head = f"GRPOConfig(num_generations={size}, beta=0.04, learning_rate=1e-06, max_steps=100)\n"
        Path(f"{name}.log").write_text(
            head + "".join(text % (r, s) for r, s in zip(rising().tolist(), STEP.tolist(), strict=True))
        )
    found = run("a.log", "b.log", "report=false")
    keys = {row["quantity"]: (row["run_1"], row["run_2"]) for row in found["differences"]}
    assert keys["num_generations"] == (4, 16)
    assert "beta" not in keys
    assert {row["quantity"]: row["run_2"] for row in found["compared"]}["group size G"] == 16


def told(reward, **series):
    """Name -> (number, what stands beside it) of the key numbers of a log."""
    curve = read(write_log("numbers.json", reward=reward, **series))[0]
    return {row.name: (row.value, row.beside) for row in key_numbers(curve, diagnose(curve)).rows}


def test_key_numbers_are_those_of_the_log():
    """A ramp from 0 to .5 at step 51, level, and from step 81 on 0: by hand. A tenth are ten rewards."""
    ramp = np.where(STEP <= 80, np.minimum((STEP - 1) / 100, 0.5), 0.0)
    found = told(ramp)
    assert found["reward at the end"] == ("0", "at best 0.5, around step 56")
    (first,) = set(found) - {"reward at the end"}
    limit, _, since = found[first][1].partition(", from step ")
    assert limit == "its limit is 0.5"
    assert 76 <= int(since.split()[0]) <= 81
    quiet = told(rising(), entropy=1 - 0.003 * STEP)
    assert list(quiet) == ["gain of the reward", "reward at the end"]
    gain = rising()[80:].mean() - rising()[:20].mean()  # a fifth at both ends
    assert float(quiet["gain of the reward"][0]) == pytest.approx(gain, abs=0.005)


def test_a_finding_about_the_whole_run_is_not_shaded():
    """What holds from the first step to the last leaves no steps to mark; its number stands at the start."""
    curve = read(write_log("flat.json", reward=0.4 + 0 * rising(), frac_reward_zero_std=0.95 + 0 * STEP))[0]
    late = read(write_log("late.json", **planted()["dynamical_instability"]))[0]
    for one, shaded in ((curve, False), (late, True)):
        figure = diagnosis_figure("x", one, diagnose(one))
        assert any(isinstance(patch, Rectangle) for patch in figure.axes[0].patches) == shaded
        assert any(text.get_text().startswith("1") for text in figure.axes[0].texts)
        plt.close(figure)


def test_a_gradient_norm_is_drawn_where_the_verdict_rests_on_it():
    """Planted: the same run with a steady norm has no panel of it; the dashed line is named."""
    rng = np.random.default_rng(0)
    reward = np.clip(0.02 * np.arange(40), 0, 0.5) + 0.02 * rng.normal(size=40)
    reward[25:] = 0.05 + 0.02 * rng.normal(size=15)
    panels, texts = [], []
    for late in (1.0, 1e4):
        norm = np.exp(0.3 * rng.normal(size=40)) * np.where(np.arange(40) >= 28, late, 1.0)
        rows = [
            {"step": i, "reward": float(r), "grad_norm": float(g)}
            for i, (r, g) in enumerate(zip(reward, norm, strict=True))
        ]
        Path("log.json").write_text(json.dumps({"log_history": rows}))
        (curve,) = read("log.json")
        figure = diagnosis_figure("x", curve, diagnose(curve))
        figure.draw_without_rendering()
        panels.append([axis.get_ylabel() for axis in figure.axes])
        texts.append([text.get_text() for text in figure.legends[0].get_texts()])
        plt.close(figure)
    assert panels == [["reward"], ["reward", "gradient\nnorm"]]
    assert all("where it begins" in one for one in texts)


def test_numbers_of_evidence_do_not_overlap(monkeypatch):
    """Begun one step apart, at the same step, and at the end of the run."""
    firsts = [25.0, 30.0, 13.0, 13.0, 12.0, 13.5, 38.0, 39.0]
    monkeypatch.setattr("bandit_lab.runs.diagnose.plot.marks", lambda found: [(one, 40.0, "x") for one in firsts])
    assert [one[1:] for one in begun(firsts, 40.0)] == [
        ("5", 0), ("3, 4", 1), ("6", 2), ("1", 0), ("2", 0), ("7", 0), ("8", 1),
    ]  # fmt: skip
    Path("run.json").write_text(json.dumps([{"step": step, "reward": 0.5} for step in range(41)]))
    (curve,) = read("run.json")
    figure = diagnosis_figure("x", curve, diagnose(curve))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) == 7
    assert not [1 for place, one in enumerate(boxes) for other in boxes[:place] if one.overlaps(other)]
    plt.close(figure)
