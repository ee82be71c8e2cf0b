"""One process per run folder, by a lock that the system drops when its holder dies.

The file's text only says who holds it; what counts is `flock`, so that a crashed process leaves nothing to clean up.
Where the file system knows no `flock`, the text counts and a holder that no longer runs on this host is passed over.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = "lock"
_TRIES, _PAUSE = 4, 0.05  # a reader that looks whether the lock is held takes it for an instant
_UNKNOWN = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Held(ValueError):
    """Another process works in the folder."""

    @staticmethod
    def text(who: dict[str, Any] | None) -> str:
        """`one held by process 12 on host since ...`, from what `holder` gives."""
        if not who or who.get("pid") is None:
            return "one held by another process"
        return f"one held by process {who['pid']} on {who['host']} since {who['since']}"


class RunLock:
    """The lock of one folder. `name` tells several locks of one folder apart."""

    def __init__(self, folder: Path, name: str = NAME) -> None:
        self.path = folder / name

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock inside the `with` block. Raises `Held` at once if another process holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self._acquire()
        try:
            _say_who(file)
            yield
        finally:
            if _has_no_flock(file):
                self.path.unlink(missing_ok=True)
            os.close(file)

    def _acquire(self) -> int:
        for attempt in range(_TRIES):
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # its last holder has just finished and removed the folder
                self.path.parent.mkdir(parents=True, exist_ok=True)
                continue
            state = _try(file, exclusive=True)
            if state is None:  # no flock here: the text decides
                state = not _runs(_read(file))
            if state and _same_file(file, self.path):
                return file
            os.close(file)
            if attempt < _TRIES - 1:
                time.sleep(_PAUSE)
        got = Held.text(holder(self.path.parent, self.path.name))
        raise Held(f"run_dir: expected a folder in which no other process works, got {got}")


def holder(folder: Path, name: str = NAME) -> dict[str, Any] | None:
    """Who works in a folder (pid, host, since), or None. Only reads."""
    path = folder / name
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        who = _read(file)
        free = _try(file, exclusive=False)
        taken = _runs(who) if free is None else not free
        return (who or {"pid": None, "host": None, "since": None}) if taken else None
    finally:
        os.close(file)


def _try(file: int, exclusive: bool) -> bool | None:
    """Whether the lock was taken; None where there is no flock."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno in _UNKNOWN:
            return None
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise


def _has_no_flock(file: int) -> bool:
    return _try(file, exclusive=True) is None


def _same_file(file: int, path: Path) -> bool:
    """Whether the path still leads to the file: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _say_who(file: int) -> None:
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(timespec="seconds")}
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(who).encode(), 0)


def _read(file: int) -> dict[str, Any] | None:
    try:
        who = json.loads(os.pread(file, 4096, 0))
        return who if isinstance(who, dict) and {"pid", "host", "since"} <= set(who) else None
    except ValueError:
        return None


def _runs(who: dict[str, Any] | None) -> bool:
    """Whether the process that the text names may still be alive; one on another host may be."""
    if who is None:
        return False
    if who["host"] != socket.gethostname():
        return True
    if who["pid"] == os.getpid():
        return False
    try:
        os.kill(who["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
