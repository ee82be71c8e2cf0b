"""The lock of a run folder: who holds it, what a dead process leaves."""

import os
import subprocess
import sys

import pytest

from bandit_lab.app.chunks import RunLock, holder

HOLD = """
import sys, pathlib
from bandit_lab.app.chunks import RunLock
with RunLock(pathlib.Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_held_lock_refuses_and_names_its_holder(tmp_path, other_process):
    assert holder(tmp_path)["pid"] == other_process.pid
    with pytest.raises(ValueError, match=rf"got 'one held by process {other_process.pid} on .* since 2"):
        RunLock(tmp_path).hold().__enter__()


def test_the_lock_of_a_dead_process_is_free(tmp_path, other_process):
    other_process.kill()
    other_process.wait()
    assert holder(tmp_path) is None
    with RunLock(tmp_path).hold():
        assert holder(tmp_path)["pid"] == os.getpid()
        with pytest.raises(ValueError, match="no other process works"):
            RunLock(tmp_path).hold().__enter__()
    assert holder(tmp_path) is None


def test_a_lock_whose_file_was_removed_is_not_a_lock(tmp_path):
    """The last holder removes the folder: who waited on the old file must not take it for the new one."""
    with RunLock(tmp_path).hold():
        (tmp_path / "lock").unlink()
        with RunLock(tmp_path).hold():
            assert holder(tmp_path)["pid"] == os.getpid()
