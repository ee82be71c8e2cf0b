"""A stdout that is closed or full changes nothing in the run folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def command(folder: Path, stdout) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "bandit_lab", "predict", f"run_dir={folder}"],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    assert command(tmp_path / "run", writer) == (0, "")
    os.close(writer)
    assert (tmp_path / "run" / "manifest.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_stdout_is_said_and_the_run_is_finished(tmp_path):
    with open("/dev/full", "w") as full:
        code, err = command(tmp_path / "run", full)
    text = f"stdout: cannot be written (No space left on device); the run is finished: {tmp_path / 'run'}\n"
    assert (code, err) == (1, f"bandit_lab predict: {text}")
    assert (tmp_path / "run" / "manifest.json").exists()
