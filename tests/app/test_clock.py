"""Seconds of a manifest: what was compiled is measured by every command that may compile."""

import json
from pathlib import Path

import jax
import pytest

from bandit_lab.app.cli import main
from bandit_lab.app.folder.store import CompileClock
from bandit_lab.lab.check import command
from bandit_lab.lab.check.result import PASS, CheckResult


def test_programs_compiled_at_once_do_not_make_the_run_negative():
    clock = CompileClock()
    clock.seconds = 3.0
    assert clock.split(2.0) == {"wall": 2.0, "compile": 2.0, "run": 0.0}
    assert clock.split(5.0) == {"wall": 5.0, "compile": 3.0, "run": 2.0}


FIVE = "bandit.rewards=[0.1,0.2,0.3,0.4,0.5] bandit.stds=[1,1,1,1,1]"


@pytest.mark.parametrize("given", ["check advantage=rloo", f"predict bandit=gaussian dynamics=mean_field {FIVE}"])
def test_the_manifest_holds_the_seconds_of_compiling(given, tmp_path, monkeypatch, nothing_compiled):
    """One check that compiles stands for the suite; a bandit without closed form has its drift compiled."""

    def compiles(subject):
        jax.jit(lambda x: x * 1.25 + 0.625)(3.0)
        return [CheckResult("compiles", PASS, subject.name)]

    monkeypatch.setattr(command, "run_checks", compiles)
    monkeypatch.chdir(tmp_path)
    assert main([*given.split(), "quiet=true", "run_dir=out"]) == 0
    found = json.loads(Path("out/manifest.json").read_text())
    assert 0 < found["compile_seconds"] <= found["wall_seconds"]
    assert found["run_seconds"] == pytest.approx(found["wall_seconds"] - found["compile_seconds"], abs=2e-3)
