"""Compute the chunks that are missing; a chunk that fails is told and the rest goes on."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

import numpy as np

from bandit_lab.app.chunks.store import FORMAT, ChunkStore, hash_of
from bandit_lab.app.version import __version__


class Work(Protocol):
    """One chunk.

    For developers. What a chunk computes may depend on `identity()` alone, to the last bit: not on how it is split,
    on the device count or on other chunks.
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
        """Amount of work, to compare it with others of its kind."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything that decides the numbers, as plain values. Hashed, it is the chunk's key."""
        ...

    def compute(self) -> Mapping[str, np.ndarray]:
        """The arrays. Any exception makes it a failed chunk; its text becomes the reason."""
        ...


def key_of(work: Work) -> str:
    """The key of a chunk: SHA-256 of its identity, of the format of the files and of the versions that its bits depend
    on. So a run that goes on after an upgrade does not mix them."""
    versions = {"bandit_lab": __version__, "jaxlib": metadata.version("jaxlib")}
    return hash_of({"format": FORMAT, "versions": versions, "kind": work.kind, **work.identity()})


@dataclass(frozen=True)
class Attempt:
    """Result of one chunk: its arrays, or the reason why there are none. seconds: of computing."""

    arrays: Mapping[str, np.ndarray]
    seconds: float
    reason: str | None = None


Attempts = Callable[[Sequence[Work], Sequence[str]], Iterator[tuple[int, Attempt]]]
"""(chunks, their keys) -> (place of a chunk, what came of it), as they are finished."""


@dataclass
class Report:
    """Result of a list of chunks. found: done before. computed: by this call, of that size and in that time in all.

    failed: index -> reason.
    """

    keys: list[str]
    found: int = 0
    computed: int = 0
    size: float = 0.0
    seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)


def attempt(work: Work) -> Attempt:
    """Compute one chunk."""
    start = time.perf_counter()
    try:
        arrays = dict(work.compute())
    except Exception as error:
        return Attempt({}, time.perf_counter() - start, reason_of(error))
    return Attempt(arrays, time.perf_counter() - start)


def one_after_another(work: Sequence[Work], keys: Sequence[str]) -> Iterator[tuple[int, Attempt]]:
    """In this process."""
    for place, one in enumerate(work):
        yield place, attempt(one)


def run_chunks(
    store: ChunkStore,
    chunks: Sequence[Work],
    progress: Callable[[int, int], None],
    attempts: Attempts = one_after_another,
) -> Report:
    """Have every chunk done, or failed and told; those that failed before are tried again.

    Raises:
      OSError: the store cannot be written. What was finished before stays finished.
    """
    report = Report([key_of(work) for work in chunks])
    missing = [index for index, key in enumerate(report.keys) if not store.is_done(key)]
    report.found = len(chunks) - len(missing)
    for done in range(report.found):
        progress(done + 1, len(chunks))
    tried = attempts([chunks[index] for index in missing], [report.keys[index] for index in missing])
    for settled, (place, outcome) in enumerate(tried, start=report.found + 1):
        index = missing[place]
        if outcome.reason is None:
            store.save(report.keys[index], outcome.arrays)
            report.computed, report.size = report.computed + 1, report.size + chunks[index].size
        else:
            report.failed[index] = outcome.reason
        report.seconds += outcome.seconds
        progress(settled, len(chunks))
    return report


def reason_of(error: BaseException) -> str:
    """One line for a table: kind and first line of an exception."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."
