"""Commands on logs and run folders need no JAX, and load what draws and labels only for output that is asked for."""

import json
import subprocess
import sys

import numpy as np
import pytest

_RUN = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocked())
from bandit_lab.__main__ import main

sys.exit(main())
"""
JAX = ("jax", "jaxlib", "optax")
DRAWING = ("pandas", "xarray", "zarr", "matplotlib")


@pytest.fixture
def log(tmp_path):
    """A run that learns, 80 rows."""
    steps = np.arange(80)
    reward = 0.2 + 0.5 * (1 - np.exp(-steps / 15)) + np.random.default_rng(3).normal(0, 0.02, steps.size)
    rows = [{"step": int(i) + 1, "reward": float(r), "loss": 0.1} for i, r in zip(steps, reward, strict=True)]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": rows, "global_step": 80, "max_steps": 80}))
    return path


def _run(blocked, folder, *arguments):
    command = [sys.executable, "-c", _RUN.format(blocked=blocked), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("arguments", [
    ["--help"],
    ["diagnose", "--help"],
    ["diagnose", "{log}", "run_dir=found"],
    ["fit", "{log}", "run_dir=found"],
    ["fit", "{log}", "run_dir=found", "engine=dask", "engine.workers=1", "report=false"],
    ["watch", "{log}", "idle=0.5"],
], ids=lambda arguments: " ".join((*arguments[:2], *arguments[3:5])))  # fmt: skip
def test_commands_on_logs_run_without_jax(arguments, log, tmp_path):
    done = _run(JAX, tmp_path, *(one.format(log=log) for one in arguments))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["diagnose", "fit"])
def test_what_draws_and_labels_is_loaded_for_its_output_only(command, log, tmp_path):
    plain = [command, str(log), "run_dir=found", "report=false", *(["pictures=false"] if command == "fit" else [])]
    done = _run((*JAX, *DRAWING), tmp_path, *plain)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "found" / "summary.json").read_text())
    with_report = _run((*JAX, *DRAWING), tmp_path, command, str(log), "run_dir=drawn")
    assert with_report.returncode != 0  # what is blocked is needed there: the blocking works


def test_a_command_that_computes_says_that_jax_is_missing(tmp_path):
    done = _run(JAX, tmp_path, "predict", "run_dir=found")
    assert done.returncode != 0
    assert "jax is blocked" in done.stderr
