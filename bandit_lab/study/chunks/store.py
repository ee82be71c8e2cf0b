"""The chunks of one run folder: for each a file of arrays and, written after it, a record that says it is finished.

`<key>.npz` holds the arrays, `<key>.json` the record with the SHA-256 of the arrays' file. A chunk counts as finished
only if its record says so and the file has that sum: whatever happened between the two writes, or to the file later,
the chunk is computed again. The key is the SHA-256 of everything that decides the chunk's numbers; a file found under
it can therefore be used whoever wrote it. `plan.json` lists what is to be done, `settings.json` what it is part of,
`arithmetic.json` by what it was computed last. Nothing but files of these names is ever removed from the folder, and
nothing behind a link.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab.study.chunks import durable
from bandit_lab.study.chunks.lock import NAME as LOCK

FOLDER = "chunks"
FORMAT = 1  # of the files; part of every key
DONE, FAILED = "done", "failed"
PLAN, SETTINGS, ARITHMETIC = "plan.json", "settings.json", "arithmetic.json"
_KEY = re.compile(r"[0-9a-f]{32}")
_OURS = re.compile(rf"[0-9a-f]{{32}}\.(npz|json)|{PLAN}|{SETTINGS}|{ARITHMETIC}|{LOCK}(\.[\w.]+)?")

Arrays = Mapping[str, np.ndarray]


class Damaged(RuntimeError):
    """A chunk's file is not what its record says."""


def hash_of(identity: Any) -> str:
    """SHA-256 of plain nested values (numbers, text, lists, mappings): numbers count to their last bit."""
    text = json.dumps(identity, sort_keys=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """What is known of one chunk. kind: stage of the run. what: its place, for people. seconds: of computing."""

    key: str
    kind: str
    what: str
    status: str
    seconds: float
    reason: str | None = None
    sha256: str | None = None
    bytes: int = 0
    work: float = 1.0
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    written: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Planned:
    """One chunk of the plan; `work` is in units that only compare chunks of one kind."""

    key: str
    work: float


Plan = dict[str, list[Planned]]
"""kind -> its chunks, in the order in which they are done."""


class ChunkStore:
    """The folder `chunks` of a run folder. Readers need no lock; writers hold the run folder's."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / FOLDER

    def settings(self) -> dict[str, Any] | None:
        """What the chunks are part of, or None where there is no store yet."""
        return _read_json(self.folder / SETTINGS)

    def damaged(self) -> list[str]:
        """Which of `settings.json` and `plan.json` are there but cannot be read."""
        there = [name for name in (SETTINGS, PLAN) if (self.folder / name).is_file()]
        content = {name: _read_json(self.folder / name) for name in there}
        plan = content.get(PLAN)
        return [name for name in there if content[name] is None or (name == PLAN and _is_no_plan(plan or {}))]

    def foreign(self) -> list[str]:
        """What no sweep wrote: names in the folder, sorted; the folder's own where it is a link or no folder."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return [FOLDER]
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        return sorted(name for name in names if not is_ours(name) or self._is_foreign(self.folder / name))

    def _is_foreign(self, path: Path) -> bool:
        """Whether a file under a name of the store holds something else; one that cannot be read does not say."""
        if path.is_symlink() or not path.is_file():
            return True
        content = _read_json(path) if path.suffix == ".json" else None
        if content is None or path.name == ARITHMETIC or durable.left_over(path.name):
            return False
        if path.name == SETTINGS:
            return not {"command", "settings"} <= set(content)
        if path.name == PLAN:  # of the store's shape, or damaged beside what is the store's
            known = bool(self.records()) or {"command", "settings"} <= set(self.settings() or ())
            keys = [p.key for part in self.plan().values() for p in part]
            return not known and (_is_no_plan(content) or not all(_KEY.fullmatch(key) for key in keys))
        return _record(path) is None

    def open(self, settings: dict[str, Any]) -> None:
        """Make the folder, remove what killed processes left in it, and note what it is part of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        durable.remove_leftovers(self.folder, is_ours)
        if self.settings() != settings:
            _write_json(self.folder / SETTINGS, settings)
        durable.sync_folder(self.folder.parent)

    def note_arithmetic(self, now: dict[str, Any]) -> dict[str, Any] | None:
        """Note by what chunks are computed from now on. Returns what was noted before, or None if nothing was."""
        before = _read_json(self.folder / ARITHMETIC)
        if before != now:
            _write_json(self.folder / ARITHMETIC, now)
        return before

    def clear(self) -> None:
        """Forget every chunk and what they were part of; the lock stays, and whatever is not the store's."""
        self._unlink(lambda name: not name.startswith(LOCK))

    def _unlink(self, chosen: Callable[[str], bool]) -> None:
        if self.folder.is_symlink() or not self.folder.is_dir():
            return
        for path in list(self.folder.iterdir()):
            name = durable.left_over(path.name) or path.name
            if is_ours(name) and chosen(name) and (path.is_symlink() or not path.is_dir()):
                path.unlink(missing_ok=True)

    def forget_failures(self) -> None:
        """Forget which chunks failed: from now on a failure is one of this attempt."""
        for key, record in self.records().items():
            if record.status == FAILED:
                (self.folder / f"{key}.json").unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove what the store wrote, the lock last: from then on another process may take the run folder."""
        self.clear()
        self._unlink(lambda name: name != LOCK)
        self._unlink(lambda name: True)
        if not self.folder.is_symlink():
            with contextlib.suppress(OSError):  # somebody else's files, or the next process's lock
                self.folder.rmdir()

    def write_plan(self, plan: Plan) -> None:
        """Note what is to be done, for `status`."""
        text = {kind: [[p.key[:32], p.work] for p in chunks] for kind, chunks in plan.items()}
        if _read_json(self.folder / PLAN) != text:
            _write_json(self.folder / PLAN, text)

    def plan(self) -> Plan:
        """What is to be done, as far as it is known; keys are cut to 32 digits. Empty where the file is damaged."""
        return _plan(_read_json(self.folder / PLAN) or {})

    def record(self, key: str) -> Record | None:
        """The record of a chunk, or None where there is none that can be read."""
        return _record(self.folder / f"{key[:32]}.json")

    def records(self) -> dict[str, Record]:
        """All records by key, cut to 32 digits."""
        try:
            paths = sorted(self.folder / name for name in os.listdir(self.folder) if name.endswith(".json"))
        except OSError:  # its holder has just finished and removed it
            return {}
        found = {path.stem: _record(path) for path in paths}
        return {key: record for key, record in found.items() if record is not None}

    def is_done(self, key: str) -> bool:
        """Whether a chunk is finished and its file is whole. Reads the file."""
        record = self.record(key)
        return record is not None and self._bytes(record) is not None

    def load(self, key: str) -> dict[str, np.ndarray]:
        """The arrays of a finished chunk. Raises `Damaged` if it is not finished or its file is not whole."""
        record = self.record(key)
        data = None if record is None else self._bytes(record)
        if data is None:
            raise Damaged(f"{self.folder / key[:32]}.npz: expected the arrays of a finished chunk, got none or others")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def save(self, record: Record, arrays: Arrays) -> Record:
        """Keep a finished chunk: the arrays first, then the record. Raises OSError; nothing then counts as finished."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        data = buffer.getbuffer()
        durable.write_file(self._file(record.key), data)
        sum_of = hashlib.sha256(data).hexdigest()
        record = _with(record, status=DONE, sha256=sum_of, bytes=len(data), reason=None)
        _write_json(self.folder / f"{record.key[:32]}.json", asdict(record))
        return record

    def fail(self, record: Record, reason: str) -> Record:
        """Note that a chunk failed, and why."""
        record = _with(record, status=FAILED, reason=reason, sha256=None, bytes=0)
        _write_json(self.folder / f"{record.key[:32]}.json", asdict(record))
        return record

    def _file(self, key: str) -> Path:
        return self.folder / f"{key[:32]}.npz"

    def _bytes(self, record: Record) -> bytes | None:
        """The file of a chunk that is finished, if it has the sum that the record states."""
        if record.status != DONE:
            return None
        try:
            data = self._file(record.key).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == record.sha256 else None


def is_ours(name: str) -> bool:
    """Whether a file of that name in the folder is one that a store or a lock writes, finished or not."""
    return _OURS.fullmatch(durable.left_over(name) or name) is not None


def _plan(text: dict[str, Any]) -> Plan:
    try:
        return {kind: [Planned(str(key), float(work)) for key, work in chunks] for kind, chunks in text.items()}
    except (TypeError, ValueError):
        return {}


def _is_no_plan(text: dict[str, Any]) -> bool:
    return bool(text) and not _plan(text)


def _with(record: Record, **changes: Any) -> Record:
    return Record(**{**asdict(record), **changes})


def _record(path: Path) -> Record | None:
    content = _read_json(path)
    if content is None or path.name in (PLAN, SETTINGS, ARITHMETIC):
        return None
    try:
        record = Record(**content)
    except TypeError:
        return None
    return record if isinstance(record.key, str) and record.key[:32] == path.stem else None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _write_json(path: Path, content: dict[str, Any]) -> None:
    durable.write_file(path, json.dumps(content).encode())
