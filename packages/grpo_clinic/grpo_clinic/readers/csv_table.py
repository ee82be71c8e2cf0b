"""CSV: wide (a column per metric), long (run, metric, step, value), the wandb export and TensorBoard's own export."""

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from grpo_clinic.readers import limits, scalars, source
from grpo_clinic.readers.table import RUN_KEYS, Parsed, RunTables, run_of

SUFFIXES = (".csv", ".tsv")
_METRIC = ("metric", "tag", "key", "variable", "metric_name", "name")
_VALUE = ("value", "y", "metric_value")
_STEP = ("step", "_step", "global_step", "train/global_step", "iteration", "x")
_SUMMARY = re.compile(r"__(MIN|MAX)$")
_DELIMITERS = (",", "\t", ";", "|")
_DECIMAL_COMMA = re.compile(r"[-+]?\d{1,20},\d{1,40}(?:[eE][-+]?\d{1,3})?")
_Rows = Iterable[list[str]]
_Shaped = Iterator[tuple[str, dict[str, object]]]
"""(run, row) pairs."""


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
    cells = _cells(lines)
    header = [name.strip() for name in next(cells, [])]
    lower = [name.lower() for name in header]
    if not header or len(header) > limits.MAX_KEYS:
        raise ValueError("expected a CSV file with a header of column names, got something else")
    ragged = 0

    def rows() -> Iterator[list[str]]:
        nonlocal ragged
        for row in cells:
            if len(row) == len(header):
                yield row
            else:
                ragged += 1

    value, metric = _place(lower, _VALUE), _place(lower, _METRIC)
    if value is not None and metric is not None:
        kind, shaped = "CSV, long", _long(rows(), lower, metric, value)
    elif value is not None and "wall time" in lower:
        kind, shaped = "CSV, TensorBoard export", _wide(rows(), [*lower[:value], "reward", *lower[value + 1 :]])
    elif any(" - " in name for name in header):
        kind, shaped = "CSV, wandb export", _wandb(rows(), header)
    else:
        kind, shaped = "CSV, wide", _wide(rows(), header)
    tables = RunTables()
    for run, row in shaped:
        tables.table(run).add(row)
    if not tables.done():
        raise ValueError("expected a CSV file with rows of numbers, got none")
    notes = (f"{ragged} rows with a wrong number of cells left out",) if ragged else ()
    return Parsed(kind, tables.done(), (*notes, *lines.notes))


def _delimiter(header: str) -> str:
    best = max(_DELIMITERS, key=header.count)
    return best if best in header else ""


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    """Rows of cells; quoted cells may hold the delimiter but not a line break. Blank lines are passed over."""
    delimiter = ""
    for line in lines:
        if line.strip():
            delimiter = delimiter or _delimiter(line) or ","
            try:
                yield next(csv.reader([line.rstrip("\n")], delimiter=delimiter), [])
            except csv.Error:
                yield []


def _place(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _cell(cell: str) -> object:
    """A number or text; 0,25 is a number too, since the comma cannot have been the delimiter then."""
    number = scalars.parse(cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell.strip()) else cell)
    return cell if number is None else number


def _wide(rows: _Rows, header: list[str]) -> _Shaped:
    for row in rows:
        cells = {name: _cell(cell) for name, cell in zip(header, row, strict=True) if name}
        yield run_of(cells), cells


def _long(rows: _Rows, lower: list[str], metric: int, value: int) -> _Shaped:
    """One row of the table per line: its step and the one metric it names."""
    step, run = _place(lower, _STEP), _place(lower, RUN_KEYS)
    for row in rows:
        if 0 < len(row[metric]) <= limits.MAX_KEY:
            cells = {row[metric]: _cell(row[value])} | ({} if step is None else {"step": _cell(row[step])})
            yield row[run][: limits.MAX_KEY] if run is not None else "", cells


def _wandb(rows: _Rows, header: list[str]) -> _Shaped:
    """Columns `<run> - <metric>` become one table per run; `__MIN` and `__MAX` are dropped."""
    places: dict[str, list[tuple[int, str]]] = {}
    shared = []
    for i, name in enumerate(header):
        run, dash, metric = name.rpartition(" - ")
        if not dash:
            shared.append((i, "step" if name.lower() in _STEP else name))
        elif not _SUMMARY.search(metric):
            places.setdefault(run, []).append((i, "step" if metric == "_step" else metric))
    for row in rows:
        for run, columns in places.items():
            cells = {metric: _cell(row[i]) for i, metric in columns if row[i].strip()}
            if cells.keys() - {"step"}:
                yield run, {**{name: _cell(row[i]) for i, name in shared}, **cells}
