"""Hydra's launchers: each job of a multirun in a process of its own, its run folder and its errors."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
JOBS = (
    *("sweep", "-m", "kl_weight=1,2", "sweep.refresh_interval=[1,2]", "sweep.learning_rate={num: 4}", "momentum=0.5"),
    *("dynamics=mean_field", "pictures=false"),
)


def launched(folder: Path, *arguments: str) -> tuple[int, str, str]:
    path = os.pathsep.join([str(TESTS.parent), str(TESTS / "lab")])
    environment = os.environ | {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "bandit_lab", *JOBS, f"run_dir={folder}", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def needs(package: str, extra: str):
    missing = not list(metadata.distributions(name=package))
    return pytest.mark.skipif(missing, reason=f"{package} is not installed (pip install '.[{extra}]')")


@pytest.mark.nightly
@needs("hydra-submitit-launcher", "slurm")
def test_submitit_runs_jobs_into_their_own_folders(tmp_path):
    code, out, err = launched(tmp_path / "runs", "hydra/launcher=submitit_local")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == str(tmp_path / "runs")
    for name, weight in (("0", 1.0), ("1", 2.0)):
        summary = json.loads((tmp_path / "runs" / name / "summary.json").read_bytes())
        assert {row["kl_weight"] for row in summary["threshold"]} == {weight}
        assert (tmp_path / "runs" / name / "manifest.json").exists()


@pytest.mark.nightly
@needs("hydra-joblib-launcher", "joblib")
def test_a_part_that_fails_in_a_launched_job_is_said_and_the_other_job_is_whole(tmp_path):
    """Two jobs at once; one has parts that fail: exit 1, one line with the reason and the command that tries again."""
    arguments = "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "plugins=[fails_at_weight_two]"
    code, out, err = launched(tmp_path / "runs", *arguments)
    assert code == 1, err
    assert "planted failure" in err
    assert "Traceback" not in err
    assert f"run_dir={tmp_path / 'runs'}" in err.splitlines()[-1]
    assert out.splitlines()[-1] == str(tmp_path / "runs")
    folders = [tmp_path / "runs" / n for n in "01"]
    failed = [json.loads((folder / "manifest.json").read_bytes())["chunks"]["failed"] for folder in folders]
    assert failed[0] == []
    assert failed[1]
