"""Ctrl-C ends a command although its main thread does not come back."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bandit_lab.app.terminal.interrupt import EXIT, interruptible

STUCK = """
import sys, time
from bandit_lab.app.terminal.interrupt import interruptible
with interruptible(lambda: "continue with: this"):
    ready = False
    while True:
        try:
            if not ready:
                ready = True
                print("ready", flush=True)
            time.sleep(60)  # stands for a compiled call: no exception gets through it
        except KeyboardInterrupt:
            pass
"""
POLITE = STUCK.replace("pass", "sys.exit(7)")
SWALLOWED = """
import time
from bandit_lab.app.terminal.interrupt import interruptible
class Collected:
    def __del__(self):  # as in a callback of the garbage collector, no exception gets out
        print("ready", flush=True)
        time.sleep(60)
with interruptible(lambda: "continue with: this"):
    thing = Collected()
    del thing
    time.sleep(60)
"""


def signalled(code: str, number: int) -> tuple[int, str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_main_thread_that_does_not_come_back_is_not_waited_for(number):
    assert signalled(STUCK, number) == (EXIT, "continue with: this\n")


def test_no_trace_where_the_interruption_cannot_be_raised():
    assert signalled(SWALLOWED, signal.SIGINT) == (EXIT, "continue with: this\n")


def test_one_that_comes_back_ends_by_itself():
    assert signalled(POLITE, signal.SIGTERM) == (7, "")


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    threads = threading.active_count()
    with interruptible(str):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    for thread in threading.enumerate():
        if thread.name.endswith("(_watch)"):
            thread.join(10)
    assert threading.active_count() == threads


def test_outside_the_main_thread_nothing_is_changed():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with interruptible(str):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


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


def test_a_second_signal_does_not_cut_off_the_line_of_the_first(tmp_path, monkeypatch, capsys):
    from bandit_lab.app import cli
    from bandit_lab.lab.predict import command as predict

    real, sent = cli._again, []

    def again(*arguments):
        for number in (signal.SIGINT, signal.SIGTERM):
            sent.append(number)
            os.kill(os.getpid(), number)
        return real(*arguments)

    monkeypatch.setattr(cli, "_again", again)
    monkeypatch.setattr(predict, "linearise", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert cli.main(["predict", f"run_dir={tmp_path / 'run'}"]) == EXIT
    err = capsys.readouterr().err
    assert sent == [signal.SIGINT, signal.SIGTERM]
    assert err.count("\n") == 1
    assert "interrupted, no finished run; run it again with: python -m bandit_lab predict" in err


OUTSIDE = """
import os, signal
from bandit_lab.app.terminal.interrupt import end_at_once
end_at_once()
print("ready", flush=True)
signal.pause()
"""


def test_before_and_after_a_command_a_signal_leaves_no_trace():
    assert signalled(OUTSIDE, signal.SIGINT) == (EXIT, "")
