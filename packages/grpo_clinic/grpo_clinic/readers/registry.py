"""Readers by the name of the format that they read."""

from functools import lru_cache
from pathlib import Path
from typing import Protocol

from grpo_clinic._registry import Registry
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions


class Reader(Protocol):
    """One format of log files.

    For developers. A new format is a class under `@register_reader("its_name")` in a module of yours (or a file of this
    folder that `front` imports). The readers are asked in turn, those from outside the package first, then ours by
    their attribute `order`. The first that owns a file reads it, alone. Packed files are unpacked before that, and
    folders are gone through: what comes here is one file.

    Logs are not trusted. Nothing in them may be evaluated or unpickled, and `LogTable` bounds what is kept.

    A class may have `suffixes`, (".ledger",): files of these names in a folder count as logs.
    """

    def owns(self, path: Path, start: bytes) -> bool:
        """Whether a file is of this format. start: its first 64 KiB at most. Nothing may be raised."""
        ...

    def read(self, path: Path, options: ReadOptions) -> Parsed:
        """One table per run, by name ("" where the file holds one). Raises ValueError, and nothing else."""
        ...


READERS: Registry[Reader] = Registry("reader")
register_reader = READERS.register


@lru_cache
def _built(name: str, builder: object) -> Reader:
    return READERS[name]()


def in_order() -> dict[str, Reader]:
    """The readers by name, as they are asked. Raises ValueError for one from outside that is none."""
    ours = {name: getattr(READERS[name], "order", 0) for name in READERS if not READERS.is_outside(name)}
    theirs = [name for name in READERS if name not in ours]
    return {name: _built(name, READERS[name]) for name in (*theirs, *sorted(ours, key=lambda name: ours[name]))}


def suffixes() -> tuple[str, ...]:
    """Ends of names of files that readers from outside say are logs, wherever they lie."""
    return tuple(one for name in READERS for one in getattr(READERS[name], "suffixes", ()))


def owner(path: Path, start: bytes) -> tuple[str, Reader]:
    """The first reader that owns a file with these first bytes, and its name; console text is whatever is left."""
    return next((name, reader) for name, reader in in_order().items() if reader.owns(path, start))
