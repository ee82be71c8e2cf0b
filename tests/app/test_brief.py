"""What `predict` and `advise` print: a few lines that say what to do, and with -v all of it."""

import json
import re
from pathlib import Path

import pytest

import bandit_lab as bl
from bandit_lab.app.cli import BAD_INPUT, OK, main


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def printed(capsys, *given: str) -> list[str]:
    assert main(["predict", "dynamics=mean_field", "run_dir=here", "overwrite=true", *given]) == OK
    return capsys.readouterr().out.splitlines()


def test_verdict_thresholds_and_advice_stand_in_a_few_lines(capsys):
    lines = printed(capsys, "refresh_interval=8", "learning_rate=0.1")
    summary = json.loads(Path("here/summary.json").read_text())
    rates = summary["thresholds"]["learning_rate"]
    assert lines[0] == summary["verdict"]
    assert lines[-1] == "here"
    assert len(lines) <= 9
    assert max(map(len, lines[1:])) <= 120
    line = next(line for line in lines if line.startswith("learning rate 0.1: "))
    for value in (rates["exact"], rates["oscillation_onset"], rates["leading_order"]):
        assert f"{value:.4g}" in line
    assert f"margin {rates['exact'] / 0.1:.2g})" in line
    first = summary["thresholds"]["refresh_interval"]["exact"]
    assert f"refresh interval 8: unstable at {first:.0f} and above" in "\n".join(lines)


def test_v_prints_every_quantity_and_changes_nothing_else(capsys):
    short = printed(capsys, "refresh_interval=8")
    summary = Path("here/summary.json").read_bytes()
    for flag in ("-v", "--verbose", "verbose=true"):
        long = printed(capsys, "refresh_interval=8", flag)
        assert long[:2] == short[:2]
        assert len(long) > 25
        assert not [line for line in long if line.startswith("what to do")]
        assert "felt at the policy that acted" in "\n".join(long)
        assert Path("here/summary.json").read_bytes() == summary
    setting = {"dynamics": "mean_field", "refresh_interval": 8}
    shown = [bl.predict(**setting, verbose=one)._repr_html_() for one in (False, True)]
    assert shown[0] == shown[1]
    assert "what to do" not in shown[0]


UNSTABLE = ["refresh_interval=8 learning_rate=0.5", "staleness=pipeline refresh_interval=8 learning_rate=0.2"]


@pytest.mark.parametrize("given", UNSTABLE)
@pytest.mark.parametrize("key", ["learning_rate", "refresh_interval"])
def test_the_way_back_is_where_stability_begins(given, key, capsys):
    text = "\n".join(printed(capsys, *given.split()))
    end = float(re.search(rf"what to do: .*?{key} below ([\d.e-]+)", text)[1])
    kept = [one for one in given.split() if not one.startswith(key)]
    near = (0.999 * end, 1.001 * end) if key == "learning_rate" else (int(end) - 1, int(end))
    for value, verdict in zip(near, ("stable", "unstable"), strict=True):
        assert printed(capsys, *kept, f"{key}={value}")[0].startswith(f"{verdict}: ")


ADVICE = {
    "refresh_interval=8 learning_rate=0.2": "lower learning_rate to ",
    "learning_rate=0.1": "nothing: learning_rate has room up to half its threshold, ",
    "bandit.rewards=[1,0]": "set kl_weight above 1.5089",
    "optimizer=lion": "measure it: `sweep` takes the same settings",
    "dynamics=sampled momentum=0 refresh_interval=4 learning_rate=2.7134 group_size=16": "raise kl_weight or",
}


@pytest.mark.parametrize("given", ADVICE)
def test_advice(given, capsys):
    found = [line for line in printed(capsys, *given.split()) if line.startswith("what to do: ")]
    assert len(found) == 1
    assert found[0].startswith(f"what to do: {ADVICE[given]}")


def advised(capsys, *given: str) -> tuple[list[str], bytes]:
    """What is printed, and `summary.json`."""
    assert main(["advise", *given, "report=false", "run_dir=here", "overwrite=true"]) == OK
    return capsys.readouterr().out.splitlines(), Path("here/summary.json").read_bytes()


RUNS = {
    "nothing known": ["learning_rate=1e-6", "group_size=8", "refresh_interval=4"],
    "a response time": ["learning_rate=1e-6", "group_size=8", "refresh_interval=4", "delay=400"],
    "a margin below 1": ["learning_rate=1e-6", "group_size=8", "refresh_interval=64", "delay=4"],
    "a trap": ["options.num_generations=1", "framework=trl"],
}


@pytest.mark.parametrize("run", RUNS)
def test_advise_prints_the_decision_the_reason_and_what_is_assumed(run, capsys):
    """In at most fifteen lines; all else with -v. No sentence stands there twice, with -v neither."""
    short, summary = advised(capsys, *RUNS[run])
    long, same = advised(capsys, *RUNS[run], "-v")
    assert same == summary
    headline = json.loads(summary)["headline"]
    assert " ".join(" ".join(short).split()).startswith(headline)
    assert len(short) <= 15 < len(long)
    assert short[-1] == long[-1] == "here"
    for lines in (short, long):
        told = " ".join(" ".join(lines).split())
        assert all(told.count(one) == 1 for one in re.split(r"(?<=[.:]) ", headline) if len(one) > 40)
    assert "How stale is too stale?" in " ".join(long)
    assert "How stale is too stale?" not in " ".join(short)


def test_two_commands_know_v(capsys):
    assert main(["sweep", "-v"]) == BAD_INPUT
    assert "got '-v'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="verbose: expected a setting of simulate"):
        bl.simulate(verbose=True)
