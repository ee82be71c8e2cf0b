"""The page of `explore`: its numbers against `predict`, a sweep's rows, and nothing that a network gives."""

import json
import re

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.app.cli import BAD_INPUT, main


def given(page):
    """What the template was filled with."""
    return json.loads(re.search(r"const GIVEN = (\{.*?\});?\n", page)[1])


@pytest.fixture(scope="module")
def page():
    return bl.explore(bandit={"name": "k_arm", "rewards": [0.8, 0.55, 0.2]}, momentum=0.35, group_size=16).html


def test_thresholds_and_onsets_are_those_of_predict(page):
    """One point of each model. Planted: a row of another momentum, or of another interval, is another number."""
    tables = given(page)["tables"]
    row, place = tables["momenta"].index(0.35), tables["intervals"].index(6)
    same = {"bandit": {"name": "k_arm", "rewards": [0.8, 0.55, 0.2]}, "group_size": 16, "momentum": 0.35}
    for model in ("refresh", "lag", "pipeline"):
        exact = bl.predict(**same, staleness=model, refresh_interval=6).thresholds.learning_rate
        shown = tables["models"][model][row]
        assert shown["threshold"][place] == pytest.approx(exact.exact, rel=1e-10)
        assert shown["onset"][place] == pytest.approx(exact.oscillation_onset, rel=1e-10)


def test_example_runs_settle_below_the_threshold_alone(page):
    """By the distance of their last 40 updates. Planted: rates of another interval have another outcome."""
    tables = given(page)["tables"]
    for model in ("refresh", "lag", "pipeline"):
        for row in tables["models"][model]:
            for runs in row["runs"]:
                curves = np.array(runs)
                last = np.abs(curves[:, -40:] - tables["reward"]).max(axis=1)
                assert last[tables["ratios"].index(0.3)] < last[tables["ratios"].index(1.4)]


def test_the_second_runs_start_at_the_untrained_policy(page):
    """All arms alike there. Planted: the start of the first runs has another reward."""
    tables = given(page)["tables"]
    for row in tables["models"]["lag"]:
        assert np.array(row["untrained"])[..., 0] == pytest.approx((0.8 + 0.55 + 0.2) / 3, abs=1e-4)
        assert np.ptp(np.array(row["runs"])[..., 0]) == 0


def test_the_page_needs_no_network_and_no_name_ends_its_script(page):
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(|XMLHttpRequest", page)
    assert page.count("</script>") == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_sweep_is_laid_into_the_map(tmp_path):
    """Its measured thresholds, in the setting that it has."""
    grid = {"learning_rate": {"start": 0.5, "stop": 30.0, "num": 6, "scale": "log"}}
    swept = bl.sweep(sweep=grid, kl_weight=1.3, momentum=0.5, refresh_interval=4, dynamics="mean_field", steps=400,
                     run_dir=tmp_path / "sweep")  # fmt: skip
    shown = given(bl.explore(tmp_path / "sweep").html)
    rows = [row for row in swept.to_dict()["threshold"] if row["measured_learning_rate"]]
    assert [row["measured_learning_rate"] for row in shown["measured"]] == [r["measured_learning_rate"] for r in rows]
    assert rows
    assert "KL weight 1.3" in shown["words"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "paths: expected a finished sweep's folder, got"),
        (["staleness=ages"], "staleness: expected one of"),
        (["refresh_interval=65"], "refresh_interval: expected 1 to 64 on the page, got 65"),
    ],
)
def test_a_mistake_is_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", *arguments]) == BAD_INPUT
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
