"""The page of `explore`: its numbers against `predict`, a sweep's rows, and nothing that a network gives."""

import json
import re

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.lab.explore import tables as made

pytestmark = pytest.mark.slow  # the sweep and the page that all of them share

SETTING = {"momentum": 0.35, "group_size": 16, "kl_weight": 1.3}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """(the sweep, the page upon it, what its template was filled with); few momenta beside the sweep's."""
    folder = tmp_path_factory.mktemp("explore") / "sweep"
    grid = {"learning_rate": {"start": 0.5, "stop": 30.0, "num": 6, "scale": "log"}}
    swept = bl.sweep(sweep=grid, refresh_interval=4, dynamics="mean_field", run_dir=folder, pictures=False, **SETTING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "MOMENTA", (0.0,))
        page = bl.explore(folder, momentum=0.35, run_dir=folder.parent / "map").html
    assert (folder.parent / "map/map.html").read_text(encoding="utf-8") == page
    return swept, page, json.loads(re.search(r"const GIVEN = (\{.*?\});?\n", page)[1])


def test_thresholds_and_onsets_are_those_of_predict(shown):
    """One point of each model. Planted: a row of another momentum, or of another interval, is another number."""
    tables = shown[2]["tables"]
    row, place = tables["momenta"].index(0.35), tables["intervals"].index(6)
    for model in ("refresh", "lag", "pipeline"):
        asked = {"staleness": model, "refresh_interval": 6, "dynamics": "mean_field"}
        exact = bl.predict(**SETTING, **asked).thresholds.learning_rate
        there = tables["models"][model][row]
        assert there["threshold"][place] == pytest.approx(exact.exact, rel=1e-10)
        assert there["onset"][place] == pytest.approx(exact.oscillation_onset, rel=1e-10)


def test_example_runs_settle_below_the_threshold_alone(shown):
    """By the distance of their last 40 updates. Planted: rates of another interval have another outcome."""
    tables = shown[2]["tables"]
    for model in ("refresh", "lag", "pipeline"):
        for row in tables["models"][model]:
            for runs in row["runs"]:
                curves = np.array(runs)
                last = np.abs(curves[:, -40:] - tables["reward"]).max(axis=1)
                assert last[tables["ratios"].index(0.3)] < last[tables["ratios"].index(1.4)]


def test_the_second_runs_start_at_the_untrained_policy(shown):
    """All arms alike there. Planted: the start of the first runs has another reward."""
    for row in shown[2]["tables"]["models"]["lag"]:
        assert np.array(row["untrained"])[..., 0] == pytest.approx((0.9 + 0.1) / 2, abs=1e-4)
        assert np.ptp(np.array(row["runs"])[..., 0]) == 0


def test_the_page_needs_no_network_and_no_name_ends_its_script(shown):
    page = shown[1]
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(|XMLHttpRequest", page)
    assert page.count("</script>") == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_sweep_is_laid_into_the_map(shown):
    """Its measured thresholds, in the setting that it has."""
    swept, _, given = shown
    rows = [row for row in swept.to_dict()["threshold"] if row["measured_learning_rate"]]
    assert [row["measured_learning_rate"] for row in given["measured"]] == [r["measured_learning_rate"] for r in rows]
    assert rows
    assert "KL weight 1.3" in given["words"]
