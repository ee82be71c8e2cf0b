"""The command line as a person meets it: folders, several runs, a kill, start-up."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from settings import nightly_but

from bandit_lab.app import progress
from bandit_lab.app.cli import INTERRUPTED, OK, main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_run_folder_is_written_where_it_is_asked_for(capsys, tmp_path):
    assert main(["predict"]) == OK
    assert [*tmp_path.iterdir()] == []
    assert main(["predict", "run_dir=here"]) == OK
    assert capsys.readouterr().out.splitlines()[-1] == "here"
    assert sorted(p.name for p in Path("here").iterdir()) == ["config.yaml", "manifest.json", "summary.json"]


def test_finished_run_is_replaced_only_on_demand(capsys):
    assert main(["predict", "run_dir=here"]) == OK
    before = Path("here/manifest.json").read_bytes()
    assert main(["predict", "run_dir=here", "refresh_interval=3"]) == 2
    assert "overwrite=true" in capsys.readouterr().err
    assert Path("here/manifest.json").read_bytes() == before
    assert main(["predict", "run_dir=here", "refresh_interval=3", "overwrite=true"]) == OK
    assert "refresh_interval: 3" in Path("here/config.yaml").read_text()


def test_multirun_makes_one_run_per_value_in_a_folder_of_its_own(capsys):
    assert main(["predict", "-m", "group_size=8,16", "run_dir=many"]) == OK
    assert capsys.readouterr().out.splitlines()[-1] == "many"
    drifts = [json.loads(Path(f"many/{place}/summary.json").read_text())["drift"] for place in range(2)]
    assert drifts == ["G = 8", "G = 16"]


@pytest.mark.parametrize("kill", nightly_but([signal.SIGTERM], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_killed_sweep_is_not_a_finished_one(kill):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "bandit_lab", "sweep", "run_dir=here", "steps=20000"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(1200):
        if Path("here/config.yaml").exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(kill)
    _, err = process.communicate(timeout=60)
    assert not Path("here/manifest.json").exists()
    assert not Path("here/summary.json").exists()
    if kill != signal.SIGKILL:
        assert process.returncode == INTERRUPTED
        assert "continue it with: python -m bandit_lab sweep run_dir=here steps=20000" in err


@pytest.mark.parametrize(
    ("line", "offered"),
    [("", "predict"), ("pre", "predict"), ("predict staleness=", "staleness=lag"), ("sweep kl_w", "kl_weight=")],
)
def test_a_shell_completes_commands_settings_and_variants(line, offered, monkeypatch, capsys):
    """Planted: Hydra asked for the whole line takes the command for an override, and offers nothing."""
    monkeypatch.setenv("COMP_LINE", f"bandit-lab {line}")
    assert main(["-sc", "query=bash"]) == OK
    assert offered in capsys.readouterr().out.split()


def test_completion_is_installed_for_the_script(capsys):
    assert main(["-sc", "install=bash"]) == OK
    assert capsys.readouterr().out.rstrip().endswith(" bandit-lab")


def test_a_pipe_gets_a_line_of_progress_every_ten_seconds(monkeypatch, capsys):
    """Planted: nothing where stderr is no terminal, or a line for every piece."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now, perf_counter=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    for quiet in (False, True):
        clock.now, told_by = 0.0, progress.Progress(quiet)
        with told_by.stage("runs") as advance:
            for clock.now in range(3, 31, 3):
                advance(clock.now // 3, 10)
        told = [] if quiet else ["runs: 4 of 10, 12 s", "runs: 8 of 10, 24 s"]
        assert capsys.readouterr().err.splitlines() == told


def test_importing_the_package_stays_light():
    names = "('hydra', 'matplotlib', 'jax', 'rich', 'xarray')"
    code = f"import sys, bandit_lab; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_full_stdout_is_said_and_the_run_is_finished():
    command = [sys.executable, "-m", "bandit_lab", "predict", "run_dir=here"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
    assert done.returncode == 1
    assert done.stderr.startswith("bandit_lab predict: stdout: cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1
    assert Path("here/manifest.json").exists()
