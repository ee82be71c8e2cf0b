"""JSONL: one row per line. Flat rows, typed rows, and verl's `file` logger {"step": n, "data": {key: value}}."""

import json
from collections.abc import Iterator
from pathlib import Path

from grpo_clinic.readers import source
from grpo_clinic.readers.dialect import with_stated_step
from grpo_clinic.readers.table import Parsed, RunTables

_WORTHWHILE = 0.5


def sniff(start: str) -> bool:
    """Whether the text begins with two lines that are JSON objects, the second one perhaps cut off."""
    lines = [line.strip() for line in start.splitlines() if line.strip()][:2]
    return len(lines) == 2 and isinstance(_row(lines[0]), dict) and lines[1].startswith("{")


def read(path: Path) -> Parsed:
    """The rows of a JSONL file. Raises ValueError if fewer than half of its lines are JSON objects."""
    tables = RunTables()
    lines = source.Lines(path)
    good = bad = 0
    wrapped = False
    for row in _rows(lines):
        if row is None:
            bad += 1
            continue
        good += 1
        wrapped |= "step" in row and isinstance(row.get("data"), dict)
        tables.add(with_stated_step(row))
    if good <= _WORTHWHILE * bad:
        left = "".join(f"; {note}" for note in lines.notes)
        raise ValueError(f"expected JSON objects, one per line, got {good} of them and {bad} other lines{left}")
    damaged = (f"{bad} damaged lines left out",) if bad else ()
    kind = "JSONL, verl file logger" if wrapped else "JSONL"
    return Parsed(kind, tables.done(), (*damaged, *lines.notes))


def _rows(lines: source.Lines) -> Iterator[dict | None]:
    for line in lines:
        line = line.strip()
        if line:
            row = _row(line)
            yield row if isinstance(row, dict) else None


def _row(line: str) -> object:
    if not line.startswith("{"):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
