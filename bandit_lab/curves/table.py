"""A sparse table that grows row by row: what a reader fills and the normaliser reads.

A cell costs 16 bytes (row number and value), whatever the log looked like; keys, cells and texts are bounded.
"""

from array import array
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from bandit_lab.curves import limits, scalars
from bandit_lab.curves.record import Floats

Rows = NDArray[np.bool_]
"""Which rows of a table are meant [rows]."""
_WRAPPERS = frozenset({"data", "metrics", "metric", "logs", "log", "scalars", "stats", "values"})


class Table:
    """Rows of named numbers and short texts; `add` returns nothing and drops what is neither."""

    def __init__(self) -> None:
        self.rows = 0
        self._cells = 0
        self._texts = 0
        self._numbers: dict[str, tuple[array, array]] = {}
        self._words: dict[str, tuple[array, list[str]]] = {}

    def add(self, row: Mapping[str, object]) -> None:
        """Append one row; nested dictionaries are flattened with dots, wrappers such as `data` without."""
        for key, value in _flat(row, "", 0):
            self._put(key, value)
        self.rows += 1

    def _put(self, key: str, value: object) -> None:
        number = scalars.parse(value)
        if number is not None:
            _room(self._cells < limits.MAX_CELLS, f"at most {limits.MAX_CELLS} numbers in one log")
            rows, values = self._slot(self._numbers, key, array("d"))
            rows.append(self.rows)
            values.append(number)
            self._cells += 1
        elif isinstance(value, bool | str) and len(str(value)) <= limits.MAX_KEY and self._texts < limits.MAX_TEXTS:
            rows, words = self._slot(self._words, key, [])
            rows.append(self.rows)
            words.append(str(value).lower() if isinstance(value, bool) else value)
            self._texts += 1

    def _slot(self, store: dict, key: str, empty: object) -> tuple:
        if key not in store:
            _room(len(store) < limits.MAX_KEYS, f"at most {limits.MAX_KEYS} different column names")
            store[key] = (array("q"), empty)
        return store[key]

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

    def has(self, key: str) -> Rows:
        """Which rows hold the numeric column `key` at all, null and NaN included [rows]."""
        present = np.zeros(self.rows, bool)
        present[np.frombuffer(self._numbers[key][0], np.int64)] = True
        return present

    def words(self, key: str) -> list[str | None]:
        """A text column over all rows, None where a row lacks it."""
        dense: list[str | None] = [None] * self.rows
        rows, words = self._words[key]
        for row, word in zip(rows, words, strict=True):
            dense[row] = word
        return dense


def _room(enough: bool, expected: str) -> None:
    if not enough:
        raise ValueError(f"expected {expected}, got more")


def _flat(row: Mapping[str, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    for key, value in row.items():
        name = str(key)
        if isinstance(value, dict):
            if depth < 3:
                inner = prefix if name in _WRAPPERS else f"{prefix}{name}."
                yield from _flat(value, inner, depth + 1)
        elif len(prefix) + len(name) <= limits.MAX_KEY:
            yield prefix + name, value
