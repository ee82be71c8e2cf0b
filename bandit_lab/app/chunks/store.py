"""The chunks of one run folder: one file each, which holds the arrays and its own check sum.

`<key>.npz` is a file that NumPy opens, with the SHA-256 of all bytes before it as the archive's comment. It is written
at once, so that a chunk is finished or not there. One whose bytes do not have that sum is computed again. The key is
the SHA-256 of everything that decides the chunk's numbers: a file found under it can be used whoever wrote it.
`plan.json` says what the chunks are part of.

One process works in a run folder, by a lock that the system drops when its holder dies (`filelock`). A second file
beside the lock says who holds it; it counts only while the lock is held.
"""

import hashlib
import io
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from bandit_lab.app.chunks import durable

FORMAT = 3  # of the files; part of every key
_SUM = 64  # digits of a check sum
_NAME, _WHO = "lock", "who.lock"
_WAIT, _LOOK = 0.3, 0.02  # seconds: who looks whether a lock is held takes it for an instant


def hash_of(identity: Any) -> str:
    """SHA-256 of plain nested values (numbers, text, lists, mappings): numbers count to their last bit."""
    text = json.dumps(identity, sort_keys=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


class ChunkStore:
    """The folder `chunks` of a run folder. Readers need no lock; writers hold the run folder's."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / "chunks"
        self._plan = self.folder / "plan.json"

    def settings(self) -> dict[str, Any] | None:
        """Settings of the run that the chunks are part of, or None where there is no store yet, or a damaged one."""
        return read_json(self._plan)

    def open(self, settings: dict[str, Any]) -> None:
        """Make the folder, remove what killed processes left in it, and note what it is part of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        durable.remove_leftovers(self.folder)
        if self.settings() != settings:
            durable.write_file(self._plan, json.dumps(settings).encode())

    def clear(self) -> None:
        """Forget every chunk and what they were part of; the lock stays."""
        for path in (self._plan, *self.records()):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder: from then on another process may take the run folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def records(self) -> list[Path]:
        """The files of chunks that are there."""
        return sorted(self.folder.glob("*.npz"))

    def is_done(self, key: str) -> bool:
        """Whether a chunk is finished and its file is whole. Reads the file."""
        return self._bytes(key) is not None

    def load(self, key: str) -> dict[str, np.ndarray]:
        """The arrays of a finished chunk. Raises RuntimeError if it is not finished or its file is not whole."""
        data = self._bytes(key)
        if data is None:
            raise RuntimeError(f"{self._file(key)}: expected the arrays of a finished chunk, got none or others")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return dict(arrays)

    def save(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a finished chunk. Raises OSError; nothing then counts as finished."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.comment = b"0" * _SUM
        data = buffer.getbuffer()
        data[-_SUM:] = _sum(data)
        durable.write_file(self._file(key), data)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key[:32]}.npz"

    def _bytes(self, key: str) -> bytes | None:
        """The file of a chunk, if it has the sum that it states."""
        try:
            data = self._file(key).read_bytes()
        except OSError:
            return None
        return data if data[-_SUM:] == _sum(memoryview(data)) else None


def read_json(path: Path) -> dict[str, Any] | None:
    """The mapping in a file, or None where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _sum(data: memoryview) -> bytes:
    """The check sum of a chunk's file: of all but the place where it stands."""
    return hashlib.sha256(data[:-_SUM]).hexdigest().encode()


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
