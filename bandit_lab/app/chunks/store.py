"""The chunks of one run folder: one file each, which holds the arrays, what is known of them, and its own check sum.

`<key>.npz` is a file that NumPy opens: the arrays, `record.json` beside them, and as the archive's comment the SHA-256
of all bytes before it. It is written at once, so that a chunk is finished or not there. One whose bytes do not have
that sum is computed again. The key is the SHA-256 of everything that decides the chunk's numbers: a file found under it
can be used whoever wrote it. `plan.json` lists what is to be done, `settings.json` what it is part of. Nothing
but files of these names is ever removed from the folder.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab.app.chunks import durable
from bandit_lab.app.chunks.lock import NAME as LOCK, WHO

FOLDER = "chunks"
FORMAT = 2  # of the files; part of every key
DONE, FAILED = "done", "failed"
PLAN, SETTINGS = "plan.json", "settings.json"
RECORD = "record.json"
_NAME = 32  # digits of a key in a file's name
_SUM = 64  # digits of a check sum
_OURS = re.compile(rf"[0-9a-f]{{32}}\.npz|{PLAN}|{SETTINGS}|({WHO})?{LOCK}")

Arrays = Mapping[str, np.ndarray]


class Damaged(RuntimeError):
    """A chunk's file is not what was written."""


def hash_of(identity: Any) -> str:
    """SHA-256 of plain nested values (numbers, text, lists, mappings): numbers count to their last bit."""
    text = json.dumps(identity, sort_keys=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """The record of one chunk. kind: stage of the run. what: its place, for people. seconds: of computing."""

    key: str
    kind: str
    what: str
    status: str
    seconds: float
    reason: str | None = None
    work: float = 1.0


@dataclass(frozen=True)
class Planned:
    """One chunk of the plan; `work` is in units that only compare chunks of one kind."""

    key: str
    work: float


Schedule = dict[str, list[Planned]]
"""kind -> its chunks, in the order in which they are done."""


class ChunkStore:
    """The folder `chunks` of a run folder. Readers need no lock; writers hold the run folder's."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / FOLDER

    def settings(self) -> dict[str, Any] | None:
        """Settings of the run that the chunks are part of, or None where there is no store yet."""
        return read_json(self.folder / SETTINGS)

    def open(self, settings: dict[str, Any]) -> None:
        """Make the folder, remove what killed processes left in it, and note what it is part of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        durable.remove_leftovers(self.folder, is_ours)
        self._note(SETTINGS, settings)
        durable.sync_folder(self.folder.parent)

    def write_plan(self, plan: Schedule) -> None:
        """Note what is to be done."""
        self._note(PLAN, {kind: [[p.key[:_NAME], p.work] for p in chunks] for kind, chunks in plan.items()})

    def plan(self) -> Schedule:
        """What is to be done, as far as it is known; keys are cut to 32 digits. Empty where the file is damaged."""
        return _plan(read_json(self.folder / PLAN) or {})

    def _note(self, name: str, content: dict[str, Any]) -> None:
        if read_json(self.folder / name) != content:
            durable.write_file(self.folder / name, json.dumps(content).encode())

    def clear(self) -> None:
        """Forget every chunk and what they were part of; locks stay, and whatever is not the store's."""
        self._unlink(lambda name: not name.startswith((LOCK, WHO)))

    def remove(self) -> None:
        """Remove what the store wrote, the lock last: from then on another process may take the run folder."""
        self._unlink(lambda name: name != LOCK)
        self._unlink(lambda name: True)
        with contextlib.suppress(OSError):  # somebody else's files, or the next process's lock
            self.folder.rmdir()

    def _unlink(self, chosen: Callable[[str], bool]) -> None:
        for name in self._names():
            of = durable.left_over(name) or name
            if is_ours(of) and chosen(of):
                (self.folder / name).unlink(missing_ok=True)

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.folder))
        except OSError:  # there is none, or its holder has just finished and removed it
            return []

    def forget_failures(self) -> None:
        """Forget which chunks failed: from now on a failure is one of this attempt."""
        for key, record in self.records().items():
            if record.status == FAILED:
                self._file(key).unlink(missing_ok=True)

    def record(self, key: str) -> Record | None:
        """The record of a chunk, or None where there is none that can be read."""
        return _record(self._file(key))

    def records(self) -> dict[str, Record]:
        """All records by key, cut to 32 digits."""
        paths = [self.folder / name for name in self._names() if name.endswith(".npz")]
        return {path.stem: record for path in paths if (record := _record(path)) is not None}

    def is_done(self, key: str) -> bool:
        """Whether a chunk is finished and its file is whole. Reads the file."""
        record = self.record(key)
        return record is not None and record.status == DONE and self._bytes(key) is not None

    def load(self, key: str) -> dict[str, np.ndarray]:
        """The arrays of a finished chunk. Raises `Damaged` if it is not finished or its file is not whole."""
        data, record = self._bytes(key), self.record(key)
        if data is None or record is None or record.status != DONE:
            raise Damaged(f"{self._file(key)}: expected the arrays of a finished chunk, got none or others")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if name != RECORD}

    def save(self, record: Record, arrays: Arrays) -> Record:
        """Keep a finished chunk. Raises OSError; nothing then counts as finished."""
        return self._write(replace(record, status=DONE, reason=None), arrays)

    def fail(self, record: Record, reason: str) -> Record:
        """Note that a chunk failed, and why."""
        return self._write(replace(record, status=FAILED, reason=reason), {})

    def _write(self, record: Record, arrays: Arrays) -> Record:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr(RECORD, json.dumps(asdict(record)))
            archive.comment = b"0" * _SUM
        data = buffer.getbuffer()
        data[-_SUM:] = _sum(data)
        durable.write_file(self._file(record.key), data)
        return record

    def _file(self, key: str) -> Path:
        return self.folder / f"{key[:_NAME]}.npz"

    def _bytes(self, key: str) -> bytes | None:
        """The file of a chunk, if it has the sum that it states."""
        try:
            data = self._file(key).read_bytes()
        except OSError:
            return None
        return data if data[-_SUM:] == _sum(memoryview(data)) else None


def is_ours(name: str) -> bool:
    """Whether a file of that name in the folder is one that a store or a lock writes, finished or not."""
    return _OURS.fullmatch(durable.left_over(name) or name) is not None


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


def _record(path: Path) -> Record | None:
    """The record in a chunk's file."""
    try:
        with zipfile.ZipFile(path) as archive:
            content = json.loads(archive.read(RECORD))
        record = Record(**{name: content[name] for name in Record.__dataclass_fields__})
    except Exception:  # whatever is said of a file that is damaged, or is none of ours
        return None
    return record if isinstance(record.key, str) and record.key[:_NAME] == path.stem else None


def _plan(text: dict[str, Any]) -> Schedule:
    try:
        return {kind: [Planned(str(key), float(work)) for key, work in chunks] for kind, chunks in text.items()}
    except (TypeError, ValueError):
        return {}
