"""One process per run folder, by a lock that the system drops when its holder dies.

The file's text only says who holds it; what counts is `flock`, so that a crashed process leaves nothing to clean up.
Where the file system knows no `flock`, the file itself is the lock: who creates it, exclusively, holds it. One whose
holder no longer runs on this host may be removed by who holds a second lock, named after its text: so two processes
that find it at the same time do not both remove it, the slower one the lock that the faster one has just made.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
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
_WRITING = 10.0  # seconds in which a lock without text is one whose holder is about to write it
_UNKNOWN = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_marks: set[str] = set()  # of the locks that this process has taken


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
        file, made = self._acquire()
        try:
            yield
        finally:
            for path in made:
                path.unlink(missing_ok=True)
            os.close(file)

    def _acquire(self) -> tuple[int, list[Path]]:
        """The open file, and the files to remove at the end: none where `flock` holds it."""
        for attempt in range(_TRIES):
            try:
                file, new = _open(self.path)
            except FileNotFoundError:  # its last holder has just finished and removed the folder
                self.path.parent.mkdir(parents=True, exist_ok=True)
                continue
            state = _try(file, exclusive=True)
            if state and _same_file(file, self.path):
                _say_who(file)
                return file, []
            if state is None and new:
                _say_who(file)
                return file, [self.path]
            os.close(file)
            if state is None and (made := _succeed(self.path)) is not None:
                return os.open(self.path, os.O_RDWR), made
            if attempt < _TRIES - 1:
                time.sleep(_PAUSE)
        got = Held.text(holder(self.path.parent, self.path.name))
        raise Held(f"run_dir: expected a folder in which no other process works, got {got}")


def _open(path: Path) -> tuple[int, bool]:
    """The file of a lock and whether this call created it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, os.O_RDWR), False


def _succeed(path: Path) -> list[Path] | None:
    """Without `flock`: take the lock of a dead process. The files to remove at the end, or None if that cannot be.

    Only who holds the lock that is named after the dead one's text may remove the dead one; that lock is taken in the
    same way.
    """
    try:
        file, new = _open(path)
    except FileNotFoundError:
        return None
    try:
        if new:
            _say_who(file)
            return [path]
        text = os.pread(file, 4096, 0)
        if _alive(file, text):
            return None
    finally:
        os.close(file)
    right = path.with_name(f"{path.name.split('.dead')[0]}.dead.{hashlib.sha256(text).hexdigest()[:16]}")
    if right == path or (made := _succeed(right)) is None:
        return None
    try:
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == text:
                path.unlink()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError:  # somebody was faster
        for one in made:
            one.unlink(missing_ok=True)
        return None
    _say_who(file)
    os.close(file)
    return [path, *made]


def _alive(file: int, text: bytes) -> bool:
    if not text:
        return time.time() - os.fstat(file).st_mtime < _WRITING
    return _runs(_who(text))


def holder(folder: Path, name: str = NAME) -> dict[str, Any] | None:
    """Who works in a folder (pid, host, since), or None. Only reads."""
    path = folder / name
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        text = os.pread(file, 4096, 0)
        who, free = _who(text), _try(file, exclusive=False)
        taken = _alive(file, text) if free is None else not free
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


def _same_file(file: int, path: Path) -> bool:
    """Whether the path still leads to the file: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _say_who(file: int) -> None:
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(timespec="seconds")}
    mark = secrets.token_hex(8)
    _marks.add(mark)
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(who | {"mark": mark}).encode(), 0)


def _who(text: bytes) -> dict[str, Any] | None:
    try:
        who = json.loads(text)
        return who if isinstance(who, dict) and {"pid", "host", "since"} <= set(who) else None
    except ValueError:
        return None


def _runs(who: dict[str, Any] | None) -> bool:
    """Whether the process that the text names may still be alive; one on another host may be."""
    if who is None:
        return False
    if who["host"] != socket.gethostname():
        return True
    if who["pid"] == os.getpid():  # this process, or one before it that had its number
        return who.get("mark") in _marks
    try:
        os.kill(who["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
