"""From new lines of a log to rows (step, metrics): JSONL, CSV and every console that `fit` reads, each read once."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from bandit_lab.curves import aliases, scalars, source
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.readers import console, csv_table, json_document, json_lines
from bandit_lab.curves.readers.dialect import with_stated_step
from bandit_lab.curves.table import RUN_KEYS, Table
from bandit_lab.curves.which import KIND_KEYS, is_evaluation, match_key

Row = tuple[float, Mapping[str, Any]]
_UNDECIDED = 400
"""Lines of console text after which the dialect that found most rows is kept, once one has found `_ENOUGH`."""
_ENOUGH = 2
_NUMBERS = frozenset({int, float})
_SPECIAL = frozenset({*RUN_KEYS, *KIND_KEYS, "train_runtime", "__aside"})
"""Names by which a row says of which run it is, that it is an evaluation, or that the run is over."""


class Lines(Protocol):
    """One format of lines."""

    kind: str

    def rows(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """The rows that these new lines complete."""
        ...


class JsonLines:
    """One JSON object per line."""

    kind = "JSONL"

    def rows(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """Flat rows; damaged lines are left out."""
        joined = b"".join(lines)
        if joined.count(b"{") == len(lines) and b"global_step/max_steps" not in joined:
            with contextlib.suppress(ValueError):
                rows = [*map(orjson.loads, lines)]
                if {*map(type, rows)} == {dict}:
                    return rows
        return [row for line in lines if (row := _flat(line)) is not None]


def _flat(line: bytes) -> dict[str, Any] | None:
    try:
        row = orjson.loads(line)
    except ValueError:
        row = _leniently(line)
    if not isinstance(row, dict):
        return None
    if any(type(value) is dict for value in row.values()):
        table = Table()
        table.add(row)
        row = table.dictionaries()[0]
    return dict(with_stated_step(row)) if "global_step/max_steps" in row else row


def _leniently(line: bytes) -> Any:
    """What strict JSON refuses and Python writes: NaN, Infinity; colour codes and holes are taken out."""
    try:
        return json.loads(decoded([line])[0])
    except (ValueError, RecursionError):
        return None


class Csv:
    """A header, then cells; wide, long, and the exports of wandb and TensorBoard."""

    kind = "CSV"

    def __init__(self, run: str | None) -> None:
        self._header = ""
        self._run = run

    def rows(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """The rows of the chosen run, else of the first one."""
        text = decoded(lines)
        if not self._header and text:
            self._header, *text = text
        try:
            tables = csv_table.from_lines([self._header, *text]).tables if text else {}
        except ValueError:
            return []
        if self._run is None and tables:
            self._run = next(iter(tables))
        chosen = next((table for run, table in tables.items() if self._run in (run, None) or self._run in run), None)
        return [] if chosen is None else chosen.dictionaries()


class Console:
    """Text of a terminal: all dialects at first, then the one that finds rows."""

    kind = "console text"

    def __init__(self, options: ReadOptions) -> None:
        self._dialects = list(console.dialects(options))
        self._seen = 0

    def rows(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """The rows of the best dialect so far; nothing before it is known which one that is."""
        for line in decoded(lines):
            for dialect in self._dialects:
                dialect.feed(line)
        if len(self._dialects) > 1:
            self._seen += len(lines)
            best = max(self._dialects, key=lambda dialect: dialect.found)
            if best.found < _ENOUGH and (self._seen < _UNDECIDED or best.found == 0):
                return []
            self._dialects = [best]
        return self._dialects[0].drain()


def recognised(path: Path, first: list[bytes], options: ReadOptions) -> Lines | None:
    """The format of a file whose first lines these are; None for a document that can only be read as a whole."""
    text, suffix = "\n".join(decoded(first[:50])), path.suffix.lower()
    if suffix in (".jsonl", ".ndjson") or json_lines.sniff(text):
        return JsonLines()
    if suffix in (".csv", ".tsv"):
        return Csv(options.run)
    if json_document.sniff(text):
        return None
    return Csv(options.run) if csv_table.sniff(text) else Console(options)


class Stepped:
    """Gives rows their step and takes out what does not count: other runs, rows that `where` leaves out."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._run = options.run
        self._step_key = options.step_key or ""
        self._count = 0
        self.ended = False

    def rows(self, found: list[dict[str, Any]]) -> Iterator[Row]:
        """Rows with their step; an evaluation's keys stand under `eval/`."""
        for names, group in itertools.groupby(found, tuple):
            rows = [*group]
            steps: list[Any] = [row[self._step_key] for row in rows] if self._are_metrics(names) else []
            if steps and {*map(type, steps)} <= _NUMBERS and all(abs(step) < 1e18 for step in steps):
                self._count = max(self._count, int(max(steps)) // (self._options.log_every or 1))
                yield from zip(steps, rows, strict=True)
            else:
                yield from self._one_by_one(rows)

    def _are_metrics(self, names: tuple[str, ...]) -> bool:
        """Whether rows of these names are a step and metrics and nothing else: the step is all there is to find."""
        return self._step_key in names and not self._options.where and not _SPECIAL.intersection(names)

    def _one_by_one(self, found: list[dict[str, Any]]) -> Iterator[Row]:
        for row in found:
            self.ended |= "train_runtime" in row
            if not self._counts(row):
                continue
            step = self._step(row)
            if is_evaluation(row):
                row = {key if key.startswith("eval") else f"eval/{key}": value for key, value in row.items()}
            yield step, row

    def _counts(self, row: Mapping[str, Any]) -> bool:
        run = next((row[key] for key in RUN_KEYS if isinstance(row.get(key), str)), None)
        if run is not None:
            self._run = self._run or run
            if self._run not in run:
                return False
        return all(_same(row.get(key), wanted) for key, wanted in self._options.where.items() if not is_evaluation(row))

    def _step(self, row: Mapping[str, Any]) -> float:
        """The step column's number; else that of the row, in steps of `log_every`."""
        if self._step_key not in row:
            known = (key for key, _ in aliases.candidates("step", list(row)))
            asked = match_key(self._options.step_key, list(row)) if self._options.step_key else None
            self._step_key = asked or next(known, self._step_key)
        step = scalars.parse(row.get(self._step_key))
        if step is None or not abs(step) < 1e18:
            self._count += "__aside" not in row  # an evaluation, or the closing summary, is no step
            return float(self._count * (self._options.log_every or 1))
        self._count = max(self._count, int(step) // (self._options.log_every or 1))
        return step


def _same(value: Any, wanted: str) -> bool:
    number = scalars.parse(wanted)
    if isinstance(value, int | float) and not isinstance(value, bool) and number is not None:
        return value == number
    return str(value).lower() == wanted.lower() if isinstance(value, bool) else str(value) == wanted


def decoded(lines: list[bytes]) -> list[str]:
    """Text without colour codes and holes."""
    return [source.cleaned(line.decode("utf-8", errors="replace")) for line in lines]
