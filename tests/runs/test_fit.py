"""`fit` as a person meets it: paths, tables, rows with a status, forecasts, pages."""

import csv
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import xarray
from fit_logs import rising, write_log

from bandit_lab.app.cli import BAD_INPUT, INCOMPLETE, OK, main
from bandit_lab.app.document import Value
from bandit_lab.runs.fit import show
from bandit_lab.runs.fit.reading import effective_stiffness
from bandit_lab.runs.logs.index import read_index, reward_options
from bandit_lab.runs.logs.runs import column
from bandit_lab.theory import oscillator

ROW = {"log", "n_points", "model", "parameters", "r_squared", "aicc", "status"}
QUICK = ("pictures=false", "report=false")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)


def fit(*given, code=OK):
    """Run `fit` into ./out; returns the summary."""
    assert main(["fit", *given, "run_dir=out", "overwrite=true"]) == code
    return json.loads(Path("out/summary.json").read_text(), parse_constant=pytest.fail) if code != BAD_INPUT else None


def test_a_run_folder_with_everything(capsys):
    path = write_log("a folder/lr=1e-5 (copy).json")
    (row,) = fit(path)["logs"]
    assert capsys.readouterr().out.splitlines()[-1] == "out"
    assert set(row) >= ROW
    assert row["log"] == "lr=1e-5 (copy)"
    assert row["n_points"] == 60
    plateau = row["parameters"]["plateau"]
    assert plateau["interval_90"][0] < 0.8 < plateau["interval_90"][1]
    assert plateau["standard_error"] > 0
    assert plateau["unit"] == "reward"
    assert row["r_squared"] > 0.9
    results = xarray.open_zarr("out/results.zarr", chunks=None)
    np.testing.assert_allclose(results["reward"][0], rising())
    assert results["parameter_value"].sel(law="single_exponential", parameter="delay").item() == pytest.approx(
        10, abs=3
    )
    assert results["aicc"].sizes == {"run": 1, "law": 5}
    assert json.loads(Path("out/manifest.json").read_text())["command"] == "fit"
    assert Path("out/fits.png").stat().st_size > 1000
    page = (Path("out") / row["page"]).read_text()
    assert 'src="data:image/png;base64,' in page
    assert not re.search(r"<script|https?:|<link", page)


def test_a_new_column_is_one_entry(monkeypatch, capsys):
    """Added to the table of runs, it is in `summary.json`, on the terminal, in the overview and in `results.zarr`."""
    before = show.last_columns
    more = column("spread", "spread", lambda row: Value(float(np.ptp(row.curve.reward)), "reward"))
    monkeypatch.setattr(show, "last_columns", lambda *given: [more, *before(*given)])
    row, _ = fit(write_log("a.json"), write_log("b.json"), "models=[sigmoid]", "pictures=false")["logs"]
    spread = float(np.ptp(rising()))
    assert row["spread"] == pytest.approx(spread)
    for text in (capsys.readouterr().out, Path("out/report/index.html").read_text()):
        assert "spread" in text
        assert f"{spread:.4g}" in text
    stored = xarray.open_zarr("out/results.zarr", chunks=None)["spread"]
    assert stored[0].item() == pytest.approx(spread)
    assert stored.attrs["units"] == "reward"


def test_same_settings_same_bits():
    path = write_log("a.json")
    first = fit(path, *QUICK)
    assert fit(path, *QUICK) == first


def test_one_bad_log_among_many_is_a_row(capsys):
    Path("bad.bin").write_bytes(pickle.dumps({"reward": 1}))
    good = write_log("good.json")
    rows = fit(good, "bad.bin", write_log("short.json", rising(5)), *QUICK, code=INCOMPLETE)["logs"]
    assert [row["model"] is None for row in rows] == [False, True, True]
    assert "pickle, which is never opened" in rows[1]["status"]
    assert "at least 8 rewards" in rows[2]["status"]
    assert rows[1]["aicc"] is None
    assert "pickle" in rows[1]["aicc_reason"]
    assert "bad.bin" in capsys.readouterr().out


def test_the_overview_links_every_page():
    logs = [write_log("one.json"), write_log("two.json"), write_log("short.json", rising(5))]
    rows = fit(*logs, "models=[sigmoid]", code=INCOMPLETE)["logs"]
    page = Path("out/report/index.html").read_text()
    for row in rows[:2]:
        assert f'<a href="{Path(row["page"]).name}">{row["log"]}</a>' in page
        assert (Path("out") / row["page"]).is_file()
    assert "short" in page
    assert page.count("data:image/png") == 1


def test_a_very_long_log_is_averaged_and_absurd_rewards_are_refused():
    """20,001 points: 11 neighbours each are averaged, 1,818 are fitted."""
    path = write_log("long.json", rising(20_001, delay=2000))
    absurd = write_log("absurd.json", 1e300 * rising())
    rows = fit(path, absurd, "models=[single_exponential]", *QUICK, code=INCOMPLETE)["logs"]
    assert rows[0]["n_points"] == 1818
    assert "averaged over 11 neighbours" in " ".join(rows[0]["notes"])
    assert rows[0]["parameters"]["delay"]["value"] == pytest.approx(2000, rel=0.1)
    assert "numbers below 1e+100" in rows[1]["status"]


def test_a_folder_is_all_its_logs():
    for name in ("one", "two"):
        write_log(f"runs/{name}.json")
    assert [row["log"] for row in fit("runs", *QUICK)["logs"]] == ["one", "two"]


def test_what_the_curve_cannot_tell_is_a_status():
    time = np.arange(60)
    line = 0.1 + 0.002 * time + 0.01 * np.random.default_rng(3).normal(size=60)
    hill = np.r_[np.linspace(0.1, 0.6, 20), np.zeros(40)] + 0.01 * np.random.default_rng(4).normal(size=60)
    rows = fit(write_log("line.json", line), write_log("hill.json", hill), *QUICK)["logs"]
    assert rows[0]["status"].startswith("not identifiable: plateau (the curve ends before it bends)")
    assert rows[0]["parameters"]["plateau"]["standard_error"] is None
    assert "not bound" in rows[0]["parameters"]["plateau"]["standard_error_reason"]
    assert rows[1]["status"].startswith("weak: the law explains")


def test_a_table_of_runs_says_how_each_is_read(capsys):
    write_log("logs/one.json", acc=0.5)
    rows = [{"run_name": n, "metric": "eval/reward", "step": i, "value": float(r)}
            for n in "pq" for i, r in enumerate(rising(30, seed=ord(n)))]  # fmt: skip
    with open("logs/many.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    Path("logs/index.csv").write_text(
        "run_id,file,selector,reward_key,outcome,G,K_ref,learning_rate,repository\n"
        "x.one,one.json,,reward (a remark),rises,8,1 (one pass),1e-5,here\n"
        "x.q,many.csv,run_name=q,metric=eval/reward,rises too,,,,there\n"
        "x.lost,absent.json,,,gone,,,,there\n"
    )
    found = fit("logs_index=logs/index.csv", "momentum=0.9", *QUICK, code=INCOMPLETE)["logs"]
    assert [row["log"] for row in found] == ["x.one", "x.q", "x.lost"]
    assert [row["outcome"] for row in found] == ["rises", "rises too", "gone"]
    assert found[0]["reading"]["effective_stiffness"] > 0
    assert "learning_rate" in found[1]["reading"]["effective_stiffness_reason"]
    assert "No such file" in found[2]["status"]
    assert "rises too" in capsys.readouterr().out


def test_texts_of_a_reward_key():
    assert reward_options("rows type=rollout: mean_reward") == {"where": "type=rollout", "reward_key": "mean_reward"}
    assert reward_options("merged[].score (critic/score/mean)") == {"reward_key": "score"}
    assert reward_options('"Percentage of correct examples:"') == {"reward_key": "Percentage of correct examples:"}
    assert reward_options("val-core/x/mean@8") == {"reward_key": "val-core/x/mean@8"}


def test_rows_are_filtered_by_text_with_an_equals_sign():
    rows = [{"type": kind, "step": i, "reward": r + (kind == "b")} for i, r in enumerate(rising(40)) for kind in "ab"]
    Path("x.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (row,) = fit("x.jsonl", "where=type=b", *QUICK)["logs"]
    assert row["parameters"]["plateau"]["value"] == pytest.approx(1.8, abs=0.1)


@pytest.mark.parametrize("convention", ["heavy_ball", "ema", "nesterov"])
@pytest.mark.parametrize("interval", [1, 4])
def test_the_stiffness_behind_a_delay_is_the_theorys(convention, interval):
    """tau = gamma/lambda of the oscillator gives its stiffness and damping ratio back, lag (N - 1)/2."""
    stiffness, rate, mu = 0.02, 0.1, 0.9
    osc = oscillator(rate, mu, stiffness, (interval - 1) / 2, convention)
    delay = float(osc.damping) / stiffness
    found = effective_stiffness(delay, (0.8 * delay, np.inf), rate, mu, interval, convention)
    assert found.stiffness == pytest.approx(stiffness)
    assert found.damping_ratio_of_momentum == pytest.approx(osc.damping_ratio)
    assert found.low == 0
    assert found.high > stiffness


def test_rollout_cycles_are_converted():
    path = write_log("a.json")
    told = ("step_unit=rollout_cycle", "refresh_interval=4", "learning_rate=1e-5", "momentum=0.9", *QUICK)
    (cycles,) = fit(path, *told)["logs"]
    (steps,) = fit(path, *told, "convert_to=optimiser_step")["logs"]
    assert steps["parameters"]["delay"]["value"] == pytest.approx(4 * cycles["parameters"]["delay"]["value"], rel=1e-6)
    assert steps["reading"]["effective_stiffness"] == pytest.approx(cycles["reading"]["effective_stiffness"], rel=1e-6)


def test_names_written_by_others_are_no_markup():
    name = "<img src=x onerror=alert(1)> | @someone #1 `x` $y$"
    path = write_log(f"runs/{name}.json")
    (row,) = fit(path)["logs"]
    assert re.fullmatch(r"report/[A-Za-z0-9._~-]+\.html", row["page"])
    page = (Path("out") / row["page"]).read_text()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


LOGS = os.environ.get("BANDIT_LAB_LOGS", "")


@pytest.mark.nightly
@pytest.mark.skipif(
    not Path(LOGS, "index.csv").is_file(), reason="BANDIT_LAB_LOGS does not name a folder with index.csv"
)
def test_all_public_runs_in_one_table():
    """Every run has a row; only those of fewer than 8 points have no law; the median law explains over 90 %."""
    rows = fit(f"logs_index={LOGS}/index.csv", *QUICK, code=INCOMPLETE)["logs"]  # two of them are too short
    assert [row["log"] for row in rows] == [entry.name for entry in read_index(f"{LOGS}/index.csv")]
    fitted = [row for row in rows if row["model"] is not None]
    assert all("at least 8" in row["status"] or "tensorboard" in row["status"] for row in rows if row["model"] is None)
    shares = [row["r_squared_explainable"] for row in fitted if row["r_squared_explainable"] is not None]
    assert np.median(shares) > 0.9
