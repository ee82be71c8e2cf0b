"""Wheels of the three packages in a fresh environment, away from this repository.

What they depend on is that of the running environment, so that nothing is downloaded but what builds a wheel.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT, ROOT / "packages/grpo_clinic", ROOT / "packages/grpo_probe")
ANSWERS = {
    ("bandit-lab", "predict", "refresh_interval=8"): "exact threshold",
    ("bandit-lab", "sweep", "--cfg", "job"): "refresh_interval",
    ("bandit-lab", "reproduce", "two_detector"): "did you mean two_detectors",  # experiments are in the wheel
    ("grpo-clinic", "diagnose", "run.json"): "40 rewards: rose",
}
"""Command: what stands in its answer."""


def run(*command: object, **where: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **where)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    here = ["--no-build-isolation"] if find_spec("hatchling") else []
    built = run(sys.executable, "-m", "pip", "wheel", "--no-deps", *here, "--wheel-dir", folder, *SOURCES)
    if built.returncode and "hatchling" in built.stderr + built.stdout:
        pytest.skip("hatchling is not installed, and no index offers it")
    assert built.returncode == 0, built.stderr
    return sorted(folder.glob("*.whl"))


@pytest.mark.nightly
def test_wheels_work_in_a_fresh_environment(wheels, tmp_path):
    """Planted: a package, a setting's file or an experiment that is left out of its wheel is missed by a command."""
    assert len(wheels) == 3
    fresh = tmp_path / "fresh"
    assert run(sys.executable, "-m", "venv", "--without-pip", fresh).returncode == 0
    python = fresh / "bin/python"
    done = run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", *wheels)
    assert done.returncode == 0, done.stderr
    (own,) = fresh.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (own / "dependencies.pth").write_text("\n".join(others), encoding="utf-8")  # these come after its own packages
    names = "bandit_lab, grpo_clinic, grpo_probe"
    paths = run(python, "-c", f"import {names}; print(*[one.__file__ for one in ({names})])", cwd=tmp_path)
    assert paths.stdout.count(str(own)) == 3, paths.stderr
    log = {"log_history": [{"step": step, "reward": 0.01 * step} for step in range(40)]}
    (tmp_path / "run.json").write_text(json.dumps(log), encoding="utf-8")
    for (command, *words), answer in ANSWERS.items():
        done = run(fresh / "bin" / command, *words, cwd=tmp_path)
        assert answer in done.stdout + done.stderr, done.stderr
