"""Which reader reads a file: those from outside the package first, then ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from grpo_clinic._registry import Registry
from grpo_clinic.readers import (
    console,
    csv_table,
    json_document,
    json_lines,
    limits,
    notebook,
    source,
    tensorboard_events,
)
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.table import Parsed


class Reader(Protocol):
    """A format of log files of your own: a class under `@register_reader("its_name")` in a module of yours.

    Packed files are refused before it is asked, and folders are gone through: what comes here is one file. Logs are not
    trusted. Nothing in them may be evaluated or unpickled, and `LogTable` bounds what is kept. `suffixes`, as
    (".ledger",), are ends of names by which files in a folder count as logs.
    """

    suffixes: tuple[str, ...] = ()

    def owns(self, path: Path, start: bytes) -> bool:
        """Whether a file is of this format. start: its first 64 KiB at most. Nothing may be raised."""
        ...

    def read(self, path: Path, options: ReadOptions) -> Parsed:
        """One table per run, by name ("" where the file holds one). Raises ValueError, and nothing else."""
        ...


_HEAD = 1000
READERS: Registry[Reader] = Registry("reader")
register_reader = READERS.register


def parse(path: Path, options: ReadOptions) -> Parsed:
    """The tables in a file, by the first reader that owns it. Raises ValueError for one that cannot be read."""
    source.check(path)
    start = source.head(path)
    for build in READERS.values():
        if (reader := build()).owns(path, start):
            return reader.read(path, options)
    if "tfevents" in path.name or source.is_event_file(start):
        return tensorboard_events.read(path)
    source.refuse_binary(start)
    name, text = path.suffix.lower(), source.first_text(start)
    if name == ".ipynb":
        return notebook.read(path, options)
    if name in (".jsonl", ".ndjson") or json_lines.sniff(text):
        return _or_console(json_lines.read, path, options)
    if json_document.sniff(text) and '"stream_name"' in text[:_HEAD]:
        return console.from_lines(json_document.streamed(path), options)
    if name not in csv_table.SUFFIXES and json_document.sniff(text):
        return _or_console(json_document.read, path, options, surely=name == ".json")
    if json_document.sniff_numbers(text) and (numbers := json_document.read_numbers(path)):
        return numbers
    if name in csv_table.SUFFIXES or csv_table.sniff(text):
        return _or_console(csv_table.read, path, options, surely=name in csv_table.SUFFIXES)
    return console.read(path, options)


def _or_console(read: Callable[[Path], Parsed], path: Path, options: ReadOptions, *, surely: bool = False) -> Parsed:
    """What `read` makes of a file; where that fails, the run in it as console text, unless it is `surely` none.

    Raises the error of `read` where both fail.
    """
    try:
        return read(path)
    except limits.TooLarge:
        raise
    except ValueError as error:
        if surely:
            raise
        try:
            return console.read(path, options)
        except limits.TooLarge:
            raise
        except ValueError:
            raise error from None
