"""One process per run folder, by a lock that the system drops when its holder dies (`filelock`).

A second file beside the lock says who holds it; it counts only while the lock is held. Where the file system knows no
`flock`, the lock is a file that is there while it is held. One of a process that no longer runs on this host is taken
over.
"""

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

NAME = "lock"
WHO = "who."  # before the lock's name: the file that says who holds it
_WAIT, _LOOK, _PAUSE = 0.3, 0.02, 0.005  # seconds: who looks whether a lock is held takes it for an instant
_NO_FLOCK = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

Who = dict[str, Any]
"""pid, host and since of a process; all None where they are not known."""


class FolderInUse(ValueError):
    """Another process works in the folder."""

    @staticmethod
    def text(who: Who | None) -> str:
        """`one held by process 12 on host since ...`, from what `holder` gives."""
        if not who or who.get("pid") is None:
            return "one held by another process"
        return f"one held by process {who['pid']} on {who['host']} since {who['since']}"


class RunLock:
    """The lock of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock inside the `with` block. Raises `FolderInUse` if another process keeps holding it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = _taken(self.path, _WAIT)
        except Timeout:
            got = FolderInUse.text(holder(self.path.parent))
            raise FolderInUse(f"run_dir: expected a folder in which no other process works, got {got}") from None
        who = _who(self.path)
        try:
            _say_who(who)
            yield
        finally:
            who.unlink(missing_ok=True)
            lock.release()


def holder(folder: Path) -> Who | None:
    """Who works in a folder (pid, host, since), or None. Only reads."""
    path = folder / NAME
    if not path.exists():
        return None
    unknown: Who | None = None
    try:
        _taken(path, _LOOK).release()
        return None
    except Timeout:
        unknown = {"pid": None, "host": None, "since": None}
    except OSError:  # a folder of somebody else, in which a lock cannot be tried
        pass
    with contextlib.suppress(OSError, ValueError):
        who = json.loads(_who(path).read_bytes())
        if isinstance(who, dict) and {"pid", "host", "since"} <= set(who):
            return who
    return unknown


def _taken(path: Path, seconds: float) -> BaseFileLock:
    """The lock at `path`, taken. Raises Timeout if it is held for that long."""
    try:
        return _take(FileLock(path), seconds)
    except Timeout:
        raise
    except (NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_FLOCK:
            raise
    return _take(SoftFileLock(path), max(seconds, 0.1))


def _take(lock: BaseFileLock, seconds: float) -> BaseFileLock:
    lock.acquire(timeout=seconds, poll_interval=_PAUSE)
    return lock


def _who(path: Path) -> Path:
    return path.with_name(f"{WHO}{path.name}")


def _say_who(path: Path) -> None:
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(timespec="seconds")}
    path.write_text(json.dumps(who), encoding="utf-8")
