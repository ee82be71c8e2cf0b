"""The script that cuts runs, forecasts them by their first part, and scores what came."""

import json
from pathlib import Path

import pytest
from fit_logs import rising, write_log

from experiments.grading import forecasts
from experiments.grading.backtest import BASELINES
from experiments.shared import script


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_long_run_is_scored_with_the_others_settings(capsys):
    for place in range(6):
        write_log(f"{'ab'[place % 2]}/run{place}.json", rising(seed=place))
    write_log("a/short.json", rising(30))
    assert forecasts.main(["a", "b", "fractions=[0.5]", "run_dir=out"]) == script.OK
    found = json.loads(Path("out/summary.json").read_text(), parse_constant=pytest.fail)["backtest"]
    (score,) = found["scores"]
    assert score["runs"] == 6
    assert score["covered"] <= 6 - score["refused"]
    assert tuple(score["baseline_errors"]) == BASELINES
    compared = score["compared"]
    assert set(compared["smaller"]) == set(score["baseline_errors"])
    best = min(score["relative_baseline_errors"].values())
    assert compared["ratio"] == pytest.approx(score["median_relative_error"] / best)
    assert compared["ratio_interval"][0] <= compared["ratio"] <= compared["ratio_interval"][1]
    out = capsys.readouterr().out
    assert "sign test" in out
    assert out.splitlines()[-1] == "out"
    assert found["left_out"] == ["short"]
    assert {row["family"] for row in found["runs"]} == {"a", "b"}


def test_a_log_without_a_curve_is_left_out_and_said(capsys):
    write_log("a/run.json")
    Path("a/empty.json").write_text("[]")
    assert forecasts.main(["a/run.json", "a/empty.json", "fractions=[0.5]", "run_dir=out"]) == script.INCOMPLETE
    assert "1 of 2 logs gave no curve (empty.json)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["a.json", "fractions=[0.95]"], "forecasts: fractions[0]: expected a number in (0, 0.85]"),
        (["a.json", "fractions=[]"], "forecasts: fractions: expected at least one share"),
        (["a.json", "fewest=3"], "forecasts: fewest: expected an integer >= 20"),
        (["nowhere.json"], "forecasts: paths: "),
        ([], "forecasts: paths: expected logs (files or folders as plain arguments)"),
    ],
)
def test_bad_input_is_one_line(arguments, line, capsys):
    write_log("a.json")
    assert forecasts.main(arguments) == script.BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert err.count("\n") == 1
