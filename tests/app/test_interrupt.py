"""Ctrl-C ends a command although its main thread does not come back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bandit_lab.app.cli import INTERRUPTED

STUCK = """
import time
from bandit_lab.__main__ import end_at_once
end_at_once(lambda: {words!r})
print("ready", flush=True)
while True:
    try:
        time.sleep(60)  # stands for a compiled call: no exception gets through it
    except BaseException:
        pass
"""


def started(code: str, words: str = "continue with: this") -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", code.format(words=words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "ready\n"
    return process


def ended_by(number: int, process: subprocess.Popen) -> tuple[int, str]:
    process.send_signal(number)
    _, err = process.communicate(timeout=2)
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_main_thread_that_does_not_come_back_is_not_waited_for(number):
    """Planted: a handler in Python, which waits for the main thread."""
    assert ended_by(number, started(STUCK)) == (INTERRUPTED, "continue with: this\n")


def test_before_and_after_a_command_a_signal_leaves_no_trace():
    assert ended_by(signal.SIGINT, started(STUCK, words="")) == (INTERRUPTED, "")


def test_a_job_in_the_background_keeps_ignoring_the_keyboard():
    """Planted: a handler for what the shell has the process ignore."""
    process = started("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + STUCK)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    assert ended_by(signal.SIGTERM, process) == (INTERRUPTED, "continue with: this\n")


def test_a_full_disk_is_one_line_in_every_command(tmp_path, monkeypatch, capsys):
    """Also where a command writes without a guard of its own."""
    import errno

    from bandit_lab.app.cli import main
    from bandit_lab.lab.predict import command as predict

    def full(plan, progress):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "run"))

    monkeypatch.setattr(predict, "compute", full)
    assert main(["predict", f"run_dir={tmp_path / 'run'}"]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "cannot be written (No space left on device)" in err
    assert "run it again with: python -m bandit_lab predict" in err
