"""A complaint about a log or about how it is read names the setting that was given."""

import json
from pathlib import Path

import numpy as np
import pytest
from settings import nightly_but

from bandit_lab.app.cli import BAD_INPUT, main

ALL = ("fit", "diagnose")
BAD = {
    "none.json": (ALL, "paths: none.json: expected a readable file"),
    "bad.txt": (ALL, "paths: bad.txt: expected a text log"),
    "logs_index=none.csv": (("fit", "diagnose"), "logs_index: expected a readable file"),
    "logs_index=index.csv": (("fit", "diagnose"), "logs_index: bad.txt: expected a text log"),
    "config=none.yaml": (("diagnose",), "config: none.yaml: expected a readable file"),
    "run.json beside=[none.json]": (("fit", "diagnose"), "beside: none.json: expected a readable file"),
    "run.json beside=[bad.txt]": (("fit", "diagnose"), "beside: bad.txt: expected a text log"),
    "run.json beside=[run.json]": (("fit", "diagnose"), "beside: run.json: expected a file with columns"),
    "run.json eval_path=bad.txt": (("fit", "diagnose"), "eval_path: bad.txt: expected a text log"),
    "run.json eval_path=loss.json": (("fit", "diagnose"), "eval_path: loss.json: expected a file with held-out"),
    "run.json reward_key=rewrd": (ALL, "paths: run.json: reward_key: expected a column of the log, got 'rewrd'"),
    "run.json step_key=stp": (ALL, "paths: run.json: step_key: expected a column"),
    "run.json where=kind=train": (ALL, "paths: run.json: where: expected a column of the log, got 'kind'"),
    "run.json where=train": (ALL, "where: expected column=value"),
    "two.csv run=c": (ALL, "paths: two.csv: run: expected the name of one run, got 'c'"),
    "run.json reward_scale=[1,0]": (ALL, "reward_scale: expected [lowest, highest]"),
    "run.json reward_scale=[1]": (ALL, "reward_scale: expected 2 numbers"),
    "run.json step_unit=token": (ALL, "step_unit: expected one of optimiser_step, rollout_cycle"),
    "run.json convert_to=token": (("fit", "diagnose"), "convert_to: expected one of"),
    "run.json log_every=0": (ALL, "log_every: expected an integer >= 1"),
    "run.json group_size=0": (ALL, "group_size: expected an integer >= 1"),
    "run.json refresh_interval=0": (ALL, "refresh_interval: expected"),
    "run.json learning_rate=0": (("fit",), "learning_rate: expected a number > 0"),
    "run.json momentum=1": (("fit",), "momentum: expected a number in [0, 1)"),
    "run.json optimizer=foo": (("fit",), "optimizer: expected one of"),
    "run.json models=[line]": (("fit",), "models[0]: expected one of"),
    "run.json level=2": (("fit",), "level: expected a number in [0.5, 0.99]"),
    "run.json false_alarm=0": (("diagnose",), "false_alarm: expected a number in (0, 1)"),
    "run.json surrogates=1": (("diagnose",), "surrogates: expected an integer >= 19"),
    "run.json diagnostic.none.x=1": (("diagnose",), "diagnostic: expected one of"),
}


@pytest.fixture(autouse=True, scope="module")
def _logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    rows = [{"step": s, "reward": 0.3 + 0.01 * s} for s in range(30)]
    (folder / "run.json").write_text(json.dumps(rows))
    (folder / "short.json").write_text(json.dumps(rows[:3]))
    (folder / "loss.json").write_text(json.dumps([{"step": s, "loss": 1.0} for s in range(30)]))
    (folder / "bad.txt").write_bytes(b"\x00\x01" * 64)
    (folder / "index.csv").write_text("file\nbad.txt\n")
    long = [f"{run},{s},reward,{v:.3f}" for run in "ab" for s, v in enumerate(np.linspace(0, 1, 20))]
    (folder / "two.csv").write_text("run_name,step,metric,value\n" + "\n".join(long) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


@pytest.mark.parametrize(
    ("command", "given", "line"),
    nightly_but(
        [(commands[place % len(commands)], given, line) for place, (given, (commands, line)) in enumerate(BAD.items())],
        [(command, given, line) for given, (commands, line) in BAD.items() for command in commands],
    ),
)
def test_the_line_starts_with_the_setting_that_was_given(capsys, command, given, line):
    assert main([command, *given.split(), "run_dir=out"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith(f"bandit_lab {command}: {line}")
    assert error.count("\n") == 1
    assert not Path("out").exists()
