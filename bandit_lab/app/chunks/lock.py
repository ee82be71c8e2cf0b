"""One process per run folder, by a lock that the system drops when its holder dies (`filelock`).

A second file beside the lock says who holds it; it counts only while the lock is held.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

_NAME, _WHO = "lock", "who.lock"
_WAIT, _LOOK = 0.3, 0.02  # seconds: who looks whether a lock is held takes it for an instant


def check_free(who: dict[str, Any] | None) -> None:
    """Raise ValueError where somebody works in a folder, as `holder` says."""
    if who is not None:
        held = f"one held by process {who.get('pid')} on {who.get('host')} since {who.get('since')}"
        raise ValueError(f"run_dir: expected a folder in which no other process works, got {held!r}")


class RunLock:
    """The lock of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock inside the `with` block. Raises ValueError if another process keeps holding it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / _NAME)
        try:
            lock.acquire(timeout=_WAIT, poll_interval=0.005)
        except Timeout:
            return check_free(holder(self.folder) or {})
        since = datetime.now().isoformat(timespec="seconds")
        try:
            who = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
            (self.folder / _WHO).write_text(json.dumps(who), encoding="utf-8")
            yield
        finally:
            (self.folder / _WHO).unlink(missing_ok=True)
            lock.release()


def holder(folder: Path) -> dict[str, Any] | None:
    """Who works in a folder (pid, host, since), as far as it is known, or None."""
    if not (folder / _NAME).exists():
        return None
    try:
        with FileLock(folder / _NAME).acquire(timeout=_LOOK, poll_interval=0.005):
            return None
    except Timeout:
        with suppress(OSError, ValueError):
            return dict(json.loads((folder / _WHO).read_bytes()))
    except OSError:  # a folder of somebody else, in which a lock cannot be tried
        return None
    return {}
