"""A sparse table that grows row by row: what a reader fills and the normaliser reads.

A cell costs 16 bytes (row number and value), whatever the log looked like; keys, cells and texts are bounded. A log may
have thousands of columns and hundreds of thousands of rows: nothing here or in the normaliser may hold all columns over
all rows.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_clinic._text import visible
from grpo_clinic.readers import limits, scalars
from grpo_clinic.readers.record import Floats

RowMask = NDArray[np.bool_]
"""Which rows of a table are meant [rows]."""
_WRAPPERS = frozenset({"data", "metrics", "metric", "logs", "log", "scalars", "stats", "values"})
RUN_KEYS = ("run_name", "run_id", "run", "experiment_name", "experiment", "exp_name", "exp", "trial", "arm", "algo")


class LogTable:
    """Rows of named numbers and short texts; `add` drops what is neither. totals: what the tables of one file hold."""

    def __init__(self, totals: Counter[str] | None = None) -> None:
        self.rows = 0
        self._totals: Counter[str] = Counter() if totals is None else totals
        self._numbers: dict[str, tuple[array, Any]] = {}
        self._words: dict[str, tuple[array, Any]] = {}

    def add(self, row: Mapping[str, object]) -> None:
        """Append one row; nested dictionaries are flattened with dots, wrappers such as `data` without."""
        for key, value in _flat(row, "", 0):
            if (number := scalars.parse(value)) is not None:
                _room(self._totals["cells"] < limits.MAX_CELLS, f"at most {limits.MAX_CELLS} numbers in one log")
                self._totals["cells"] += self._put(self._numbers, key, number)
            elif isinstance(value, bool | str) and self._totals["texts"] < limits.MAX_TEXTS:
                word = str(value).lower() if isinstance(value, bool) else value
                self._totals["texts"] += self._put(self._words, key, word) if len(word) <= limits.MAX_KEY else 0
        self.rows += 1

    def _put(self, store: dict[str, tuple[array, Any]], key: str, value: object) -> int:
        """Put a value at the end of a column, in place of an earlier one in this row; the number of cells more."""
        if key not in store:
            _room(len(store) < limits.MAX_KEYS, f"at most {limits.MAX_KEYS} different column names")
            most = f"at most {limits.MAX_COLUMNS} columns in all runs of a log"
            _room(self._totals["columns"] < limits.MAX_COLUMNS, most)
            store[key] = (array("q"), array("d") if store is self._numbers else [])
            self._totals["columns"] += 1
        rows, values = store[key]
        if rows and rows[-1] == self.rows:
            values[-1] = value
            return 0
        rows.append(self.rows)
        values.append(value)
        return 1

    @property
    def keys(self) -> list[str]:
        """Names of the numeric columns, in order of appearance."""
        return list(self._numbers)

    @property
    def text_keys(self) -> list[str]:
        """Names of the text columns, in order of appearance."""
        return list(self._words)

    def column(self, key: str) -> Floats:
        """A numeric column over all rows [rows], NaN where a row lacks it."""
        dense = np.full(self.rows, np.nan)
        rows, values = self._numbers[key]
        dense[np.frombuffer(rows, np.int64)] = np.frombuffer(values, np.float64)
        return dense

    def has(self, key: str) -> RowMask:
        """Which rows hold the numeric column `key` at all, null and NaN included [rows]."""
        present = np.zeros(self.rows, bool)
        present[np.frombuffer(self._numbers[key][0], np.int64)] = True
        return present

    def logged(self, key: str, rows: RowMask | None = None) -> bool:
        """Whether a numeric column `key` holds a finite number, in one of these rows [rows] if they are given."""
        places, values = self._numbers.get(key, (b"", b""))
        finite = np.isfinite(np.frombuffer(values, np.float64))
        return bool((finite if rows is None else finite & rows[np.frombuffer(places, np.int64)]).any())

    def with_steps(self, step: Floats) -> "LogTable":
        """A copy in which every row has its `step` [rows]; without columns `__...`."""
        fresh = LogTable()
        fresh.rows, fresh._words = self.rows, self._words
        fresh._numbers = {key: cells for key, cells in self._numbers.items() if not key.startswith("__")}
        fresh._numbers["step"] = (array("q", range(self.rows)), array("d", step.tobytes()))
        return fresh

    def part(self, first: int, last: int) -> "LogTable":
        """A copy of the rows from `first` up to `last`, which is not among them."""
        fresh = LogTable(self._totals)
        fresh.rows = last - first
        for store, own in ((self._numbers, fresh._numbers), (self._words, fresh._words)):
            for key, (rows, values) in store.items():
                start, end = (bisect_left(rows, place) for place in (first, last))
                if start < end:
                    own[key] = (array("q", [row - first for row in rows[start:end]]), values[start:end])
        return fresh

    def words(self, key: str) -> list[str | None]:
        """A text column over all rows, None where a row lacks it."""
        dense: list[str | None] = [None] * self.rows
        rows, words = self._words[key]
        for row, word in zip(rows, words, strict=True):
            dense[row] = word
        return dense


@dataclass(frozen=True)
class Parsed:
    """The result of a reader: one table per run, the format's name, and notes."""

    format: str
    tables: dict[str, LogTable]
    notes: tuple[str, ...] = ()
    framework: str = ""


def _room(enough: bool, expected: str) -> None:
    if not enough:
        raise limits.TooLarge(f"expected {expected}, got more")


def _flat(row: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, value in row.items():
        name = visible(str(key))
        if isinstance(value, dict):
            if depth < 3:
                inner = prefix if name in _WRAPPERS else f"{prefix}{name}."
                yield from _flat(value, inner, depth + 1)
        elif len(prefix) + len(name) <= limits.MAX_KEY:
            yield prefix + name, value


class RunTables:
    """One table per run; rows without a run name form a table of their own, named ''."""

    def __init__(self) -> None:
        self._tables: dict[str, LogTable] = {}
        self._totals: Counter[str] = Counter()

    def add(self, row: Mapping[str, object]) -> None:
        """Put one row into the table of its run."""
        self.table(run_of(row)).add(row)

    def table(self, run: str) -> LogTable:
        """The table of one run, made when first asked for. Raises TooLarge beyond the largest number of runs."""
        run = visible(run)
        if run not in self._tables:
            _room(len(self._tables) < limits.MAX_RUNS, f"at most {limits.MAX_RUNS} runs in one log")
            self._tables[run] = LogTable(self._totals)
        return self._tables[run]

    def done(self) -> dict[str, LogTable]:
        """The tables by run, those without any number left out."""
        return {run: table for run, table in self._tables.items() if table.keys}


def run_of(row: Mapping[str, object]) -> str:
    """The run that a row names, '' if it names none."""
    names = (row.get(key) for key in RUN_KEYS)
    return next((name[: limits.MAX_KEY] for name in names if isinstance(name, str) and name), "")
