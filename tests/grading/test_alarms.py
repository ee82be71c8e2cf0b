"""How often `watch` is wrong: false alarms of simulated and of real runs, and the script that scores them."""

import json
import os
import re
from pathlib import Path

import pytest
from grpo_clinic.monitor import Monitor, spending

from bandit_lab.app.progress import Progress
from experiments.grading import alarms
from experiments.shared.sick_runs.plant import load


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.nightly
def test_false_alarms_of_whole_runs_are_rare_and_a_threshold_per_look_is_caught(monkeypatch):
    """240 healthy runs of the held-out ranges, seed 7: alarms but `stalled` at 5 % or less. More with the defect.

    The limits are 5 % and three standard errors, of 240 and of 120 runs: 22 and 13. The planted defect gives every look
    a rate of its own. The rate of 2,000 runs is in figures/watch.json.
    """
    curves = alarms.healthy_runs("held_out", 240, Progress(quiet=True), 7)
    assert alarms.false_alarms(curves)["without_patience"] <= 22

    def per_look(rate, look, held_out_look, reward, held_out):
        return dict.fromkeys(("fall.reward", "fall.eval", "fall.alone", "swings"), 1.96)

    monkeypatch.setattr(spending, "at_look", per_look)
    assert alarms.false_alarms(curves[:120])["without_patience"] > 13


def test_the_published_rate_of_2000_runs_keeps_its_promise_and_is_the_one_in_the_docs():
    root = Path(__file__).parents[2]
    published = json.loads((root / "figures" / "watch.json").read_text())["watch"]
    assert (published["split"], published["runs"]) == ("held_out", 2000)
    assert published["without_patience"] <= published["target"] == 0.05
    text = (root / "docs" / "watch.md").read_text()
    for one in published["delays"]:
        name = one["failure"].replace("policy ", "").replace("advantage ", "")
        cells = (
            one["false_alarms"],
            one["runs"],
            one["alarmed"],
            one["found"],
            round(one["delay_rows"]),
        )
        row = r"\s+".join((rf"\n    {name}", *map(str, cells)))
        assert re.search(row, text), row


REAL = Path(os.environ.get("BANDIT_LAB_LOGS", ""))


@pytest.mark.nightly
@pytest.mark.skipif(not os.environ.get("BANDIT_LAB_LOGS"), reason="BANDIT_LAB_LOGS does not name a folder with logs")
def test_real_runs_without_a_failure_raise_few_alarms(capsys):
    """Of the public runs in which nobody, `diagnose` neither, found a failure, at most 5 % raised an alarm."""
    from grpo_clinic.logs.gather import gather
    from grpo_clinic.logs.settings import DiagnosisSettings
    from grpo_clinic.report import report
    from grpo_clinic.rules import Case

    logs = gather(DiagnosisSettings(logs_index=str(REAL / "index.csv")))
    about, judged, wrong = load("real_runs"), 0, []
    for log in logs:
        documented = (about["development"] | about["scoring"]).get(log.name)
        if log.curve is None or documented in about["accepted"]:
            continue
        if not report(Case(log.curve, log.group_size, log.refresh_interval)).harms:
            judged += 1
            if raised := alarms.replay(log.curve, Monitor(group_size=log.group_size)):
                wrong.append((log.name, [one.failure for one in raised]))
    with capsys.disabled():
        print(f"\nreal runs without a failure: {judged}, with an alarm: {wrong}")
    assert judged >= 30
    assert len(wrong) <= 0.05 * judged
