"""The lock of a run folder: who holds it, what a dead process leaves, file systems that know no locks."""

import os
import socket
import subprocess
import sys

import pytest

from bandit_lab.app.chunks import FolderInUse, RunLock, holder

HOLD = """
import sys, pathlib
from bandit_lab.app.chunks import RunLock, lock
if sys.argv[2:]:
    lock.FileLock = lock.SoftFileLock
with RunLock(pathlib.Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path, request):
    command = [sys.executable, "-c", HOLD, str(tmp_path), *getattr(request, "param", ())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_held_lock_refuses_and_names_its_holder(tmp_path, other_process):
    assert holder(tmp_path)["pid"] == other_process.pid
    with pytest.raises(FolderInUse, match=rf"got one held by process {other_process.pid} on .* since 2"):
        RunLock(tmp_path).hold().__enter__()


def test_the_lock_of_a_dead_process_is_free(tmp_path, other_process):
    other_process.kill()
    other_process.wait()
    assert holder(tmp_path) is None
    with RunLock(tmp_path).hold():
        assert holder(tmp_path)["pid"] == os.getpid()
        with pytest.raises(FolderInUse):
            RunLock(tmp_path).hold().__enter__()
    assert holder(tmp_path) is None


@pytest.mark.parametrize("other_process", [["without flock"]], indirect=True)
def test_without_flock_the_named_process_counts(tmp_path, other_process, monkeypatch):
    """File systems without locks: a living process refuses, a dead one and a stale text do not."""
    from bandit_lab.app.chunks import lock

    monkeypatch.setattr(lock, "FileLock", lock.SoftFileLock)
    with pytest.raises(FolderInUse, match=f"process {other_process.pid} "):
        RunLock(tmp_path).hold().__enter__()
    other_process.kill()
    other_process.wait()
    with RunLock(tmp_path).hold():
        assert (tmp_path / "lock").exists()
    assert not (tmp_path / "lock").exists()


def test_without_flock_two_processes_never_both_hold(tmp_path, monkeypatch):
    """The second one comes when the first has created the lock and not yet said who it is; also over a dead one's."""
    from bandit_lab.app.chunks import lock

    monkeypatch.setattr(lock, "FileLock", lock.SoftFileLock)
    say, refused = lock._say_who, []

    def slow(file):
        if not refused:
            refused.append(False)
            with pytest.raises(FolderInUse):
                RunLock(tmp_path).hold().__enter__()
            refused[0] = True
        say(file)

    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    text = f"{int(dead.stdout)}\n{socket.gethostname()}\n"
    for before in (None, text):
        if before is not None:
            (tmp_path / "lock").write_text(before)
        monkeypatch.setattr(lock, "_say_who", slow)
        with RunLock(tmp_path).hold():
            assert refused == [True]
            with pytest.raises(FolderInUse, match=f"process {os.getpid()} "):
                RunLock(tmp_path).hold().__enter__()
        assert list(tmp_path.iterdir()) == []
        refused.clear()


RACE = """
import sys, time, pathlib
from bandit_lab.app.chunks import RunLock, FolderInUse, lock
lock.FileLock = lock.SoftFileLock
folder, held = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
try:
    with RunLock(folder).hold():
        held.mkdir()  # fails if another process is inside
        time.sleep(0.3)
        held.rmdir()
        print("held")
except FolderInUse:
    print("refused")
"""


def test_a_dead_lock_without_flock_goes_to_one_of_many(tmp_path):
    folder = tmp_path / "chunks"
    folder.mkdir()
    command = [sys.executable, "-c", RACE, str(folder), str(tmp_path / "held")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (folder / "lock").write_text(f"{int(dead.stdout)}\n{socket.gethostname()}\n")
    racers = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for one in racers:
        assert one.stdout.readline() == "ready\n"
    for one in racers:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.communicate(timeout=60)[0].strip() for one in racers]
    assert all(one.returncode == 0 for one in racers)
    assert "held" in said
    assert set(said) <= {"held", "refused"}
    assert list(folder.iterdir()) == []


def test_a_lock_whose_file_was_removed_is_not_a_lock(tmp_path):
    """The last holder removes the folder: who waited on the old file must not take it for the new one."""
    with RunLock(tmp_path).hold():
        (tmp_path / "lock").unlink()
        with RunLock(tmp_path).hold():
            assert holder(tmp_path)["pid"] == os.getpid()
