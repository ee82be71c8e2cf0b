"""Compute the chunks that are missing; a chunk that fails is noted and the rest goes on.

Several processes may work on one store: a chunk that is neither done nor locked is taken by whoever comes first. The
system drops the locks of a process that dies, and the others take its chunks.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

import numpy as np

from bandit_lab._version import __version__
from bandit_lab.study.chunks.store import FAILED, FORMAT, ChunkStore, Planned, Record, hash_of

Wait = Callable[[int, float], None]
"""(chunks that other processes work on, seconds since the last one was finished) -> returns when to look again."""

WORKING = "working"


class Work(Protocol):
    """One chunk.

    For developers. What a chunk computes may depend on `identity()` alone, to the last bit: not on how it is split,
    on the device count or on other chunks. `halves` and `join` serve to compute it in less memory.
    """

    @property
    def kind(self) -> str:
        """Stage of the run."""
        ...

    @property
    def what(self) -> str:
        """Its place, for people."""
        ...

    @property
    def size(self) -> float:
        """How much work it is, to compare it with others of its kind."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything that decides the numbers, as plain values. Hashed, it is the chunk's key."""
        ...

    def compute(self) -> Mapping[str, np.ndarray]:
        """The arrays. Any exception makes it a failed chunk; its text becomes the reason."""
        ...

    def halves(self) -> Sequence["Work"]:
        """The same work as smaller pieces, or nothing where it cannot be cut without changing bits."""
        ...

    def join(self, parts: Sequence[Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
        """The arrays of the whole from those of `halves()`."""
        ...


def key_of(work: Work) -> str:
    """The key of a chunk: SHA-256 of its identity, of the format of the files and of the versions that its bits depend
    on, so that a run that goes on after an upgrade does not mix them."""
    versions = {"bandit_lab": __version__, "jaxlib": metadata.version("jaxlib")}
    return hash_of({"format": FORMAT, "versions": versions, "kind": work.kind, **work.identity()})


def planned(work: Sequence[Work]) -> list[Planned]:
    """The plan's entries of some chunks."""
    return [Planned(key_of(w), w.size) for w in work]


@dataclass
class Report:
    """What became of a list of chunks. found: done before or by others. computed: by this call, of that size in all.

    failed: index -> reason.
    """

    keys: list[str]
    found: int = 0
    computed: int = 0
    size: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)


def run_chunks(
    store: ChunkStore,
    chunks: Sequence[Work],
    progress: Callable[[int, int], None],
    wait: Wait | None = None,
) -> Report:
    """Have every chunk settled: done, or failed and noted. Alone, a process tries those again that failed before.

    Args:
      wait: how to wait for the chunks that other processes have taken; None where there are no others.

    Raises:
      OSError: the store cannot be written. What was finished before stays finished.
    """
    report = Report([key_of(work) for work in chunks])
    waiting, news = list(range(len(chunks))), time.monotonic()
    while waiting:
        left = []
        for index in waiting:
            if _is_settled(store, chunks[index], index, report, wait is None):
                news = time.monotonic()
                progress(report.found + report.computed + len(report.failed), len(chunks))
            else:
                left.append(index)
        if wait is not None and len(left) == len(waiting):
            wait(len(left), time.monotonic() - news)
        waiting = left
    return report


def _is_settled(store: ChunkStore, work: Work, index: int, report: Report, alone: bool) -> bool:
    """Whether a chunk is settled, by this call if it is free; false where another process works on it."""
    key = report.keys[index]
    if store.is_done(key):
        report.found += 1
        return True
    if alone:
        _compute(store, work, index, report)
        return True
    with store.taken(key) as mine:
        if not mine:
            return False
        record = store.record(key)
        if record is not None and record.status == FAILED:
            report.failed[index] = record.reason or "failed"
        elif store.is_done(key):
            report.found += 1
        else:
            _compute(store, work, index, report)
    return True


def _compute(store: ChunkStore, work: Work, index: int, report: Report) -> None:
    reason = _one(store, work, report.keys[index])
    if reason is None:
        report.computed, report.size = report.computed + 1, report.size + work.size
    else:
        report.failed[index] = reason


def _one(store: ChunkStore, work: Work, key: str) -> str | None:
    """Compute and keep one chunk; the reason if it failed."""
    start = time.perf_counter()
    reason, arrays = None, {}
    try:
        arrays = dict(within_memory(work))
    except Exception as error:
        reason = reason_of(error)
    record = Record(key, work.kind, work.what, WORKING, time.perf_counter() - start, work=work.size)
    if reason is None:
        store.save(record, arrays)
    else:
        store.fail(record, reason)
    return reason


def within_memory(work: Work) -> Mapping[str, np.ndarray]:
    """The arrays of a chunk; where memory runs out, computed in smaller and smaller pieces of whole blocks."""
    try:
        return work.compute()
    except Exception as error:
        pieces = work.halves() if is_out_of_memory(error) else ()
        if not pieces:
            raise
    gc.collect()  # out here the failed attempt's arrays are no longer held by its traceback
    return work.join([within_memory(piece) for piece in pieces])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the host or the device has no memory left."""
    text = str(error)
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "Out of memory" in text


def reason_of(error: BaseException) -> str:
    """One line for a table: kind and first line of an exception."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."
