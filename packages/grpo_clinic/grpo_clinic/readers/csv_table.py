"""CSV: wide (a column per metric), long (run, metric, step, value), the wandb export and TensorBoard's own export."""

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from grpo_clinic.readers import limits, scalars, source
from grpo_clinic.readers.table import RUN_KEYS, LogTable, Parsed, RunTables

SUFFIXES = (".csv", ".tsv")
_METRIC = ("metric", "tag", "key", "variable", "metric_name", "name")
_VALUE = ("value", "y", "metric_value")
_STEP = ("step", "_step", "global_step", "train/global_step", "iteration", "x")
_SUMMARY = re.compile(r"__(MIN|MAX)$")
_DELIMITERS = (",", "\t", ";", "|")
_DECIMAL_COMMA = re.compile(r"[-+]?\d{1,20},\d{1,40}(?:[eE][-+]?\d{1,3})?")


def sniff(start: str) -> bool:
    """Whether the first line is a header of several short names and the second a row of as many cells."""
    lines = [line for line in start.splitlines() if line.strip()][:2]
    delimiter = _delimiter(lines[0]) if len(lines) == 2 else ""
    if not delimiter:
        return False
    header, row = (next(csv.reader([line], delimiter=delimiter)) for line in lines)
    named = sum(scalars.parse(cell) is None for cell in header)
    numeric = any(scalars.parse(cell) is not None for cell in row)
    return len(header) == len(row) and named >= len(header) - 1 and numeric


def read(path: Path) -> Parsed:
    """The runs of a CSV file. Raises ValueError if it has no header, or no rows of numbers."""
    lines = source.Lines(path)
    rows = _cells(lines)
    header = [name.strip() for name in next(rows, [])]
    lower = [name.lower() for name in header]
    if not header or len(header) > limits.MAX_KEYS:
        raise ValueError("expected a CSV file with a header of column names, got something else")
    value = _place(lower, _VALUE)
    if value is not None and _place(lower, _METRIC) is not None:
        kind, tables, ragged = "CSV, long", *_long(rows, header, lower, value)
    elif value is not None and "wall time" in lower:
        kind, tables, ragged = (
            "CSV, TensorBoard export",
            *_wide(rows, ["reward" if i == value else n for i, n in enumerate(lower)]),
        )
    elif any(" - " in name for name in header):
        kind, tables, ragged = "CSV, wandb export", *_wandb(rows, header)
    else:
        kind, tables, ragged = "CSV, wide", *_wide(rows, header)
    if not tables:
        raise ValueError("expected a CSV file with rows of numbers, got none")
    notes = (f"{ragged} rows with a wrong number of cells left out",) if ragged else ()
    return Parsed(kind, tables, (*notes, *lines.notes))


def _delimiter(header: str) -> str:
    counts = {mark: header.count(mark) for mark in _DELIMITERS}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ""


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    """Rows of cells; quoted cells may hold the delimiter but not a line break. Blank lines are passed over."""
    delimiter = ","
    first = True
    for line in lines:
        if not line.strip():
            continue
        if first:
            delimiter, first = _delimiter(line) or ",", False
        try:
            yield next(csv.reader([line.rstrip("\n")], delimiter=delimiter), [])
        except csv.Error:
            yield []


def _place(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _wide(rows: Iterator[list[str]], header: list[str]) -> tuple[dict[str, LogTable], int]:
    tables, ragged = RunTables(), 0
    for row in rows:
        if len(row) != len(header):
            ragged += 1
            continue
        tables.add({name: _cell(cell) for name, cell in zip(header, row, strict=True) if name})
    return tables.done(), ragged


def _cell(cell: str) -> object:
    """A number or text; 0,25 is a number too, since the comma cannot have been the delimiter then."""
    number = scalars.parse(cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell)
    return cell if number is None else number


def _long(
    rows: Iterator[list[str]], header: list[str], lower: list[str], value: int
) -> tuple[dict[str, LogTable], int]:
    """One row of the table per line: its step and the one metric it names."""
    metric, step, run = _place(lower, _METRIC), _place(lower, _STEP), _place(lower, RUN_KEYS)
    tables, ragged = RunTables(), 0
    for row in rows:
        if len(row) != len(header) or metric is None or not row[metric] or len(row[metric]) > limits.MAX_KEY:
            ragged += 1
            continue
        found: dict[str, object] = {row[metric]: _cell(row[value])}
        if step is not None:
            found["step"] = _cell(row[step])
        tables.table(row[run][: limits.MAX_KEY] if run is not None else "").add(found)
    return tables.done(), ragged


def _wandb(rows: Iterator[list[str]], header: list[str]) -> tuple[dict[str, LogTable], int]:
    """Columns `<run> - <metric>` become one table per run; `__MIN` and `__MAX` are dropped."""
    places: dict[str, list[tuple[int, str]]] = {}
    shared = []
    for i, name in enumerate(header):
        run, dash, metric = name.rpartition(" - ")
        if not dash:
            shared.append((i, "step" if name.lower() in _STEP else name))
        elif not _SUMMARY.search(metric):
            places.setdefault(run, []).append((i, metric))
    tables, ragged = RunTables(), 0
    for row in rows:
        if len(row) != len(header):
            ragged += 1
            continue
        for run, columns in places.items():
            found = {metric: _cell(row[i]) for i, metric in columns if row[i].strip()}
            if found and any(metric not in ("_step", "step") for metric in found):
                own_step = {"step": found.pop("_step")} if "_step" in found else {}
                tables.table(run).add({**{name: _cell(row[i]) for i, name in shared}, **own_step, **found})
    return tables.done(), ragged
