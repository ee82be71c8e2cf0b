"""From new lines of a log to rows (step, metrics): JSONL, CSV and every console that `fit` reads, each read once."""

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bandit_lab.runs.read import aliases, console, csv_table, registry, scalars, source
from bandit_lab.runs.read.dialect import with_stated_step
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.read.record import Floats
from bandit_lab.runs.read.table import RUN_KEYS, LogTable
from bandit_lab.runs.read.which import KIND_KEYS, is_evaluation, match_key
from bandit_lab.runs.watch.schema import NUMBERS, UNREADABLE, Schema, schema_of
from bandit_lab.runs.watch.tail import Text, lines_of

Row = tuple[float, Mapping[str, Any]]
_UNDECIDED = 400
"""Lines of console text after which the dialect that found most rows is kept, once one has found `_ENOUGH`."""
_ENOUGH = 2
_SPECIAL = frozenset({*RUN_KEYS, *KIND_KEYS, "train_runtime", "__aside"})
"""Names by which a row says of which run it is, that it is an evaluation, or that the run is over."""


class Columns(Mapping[str, Floats]):
    """Rows [n] that all have the same names and plain numbers: name -> values [n], kept as one array [names, n]."""

    def __init__(self, names: tuple[str, ...], values: Floats) -> None:
        self._place, self._values = {name: place for place, name in enumerate(names)}, values

    def __getitem__(self, name: str) -> Floats:
        return self._values[self._place[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._place

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)

    def dictionaries(self) -> list[dict[str, Any]]:
        """Row by row."""
        return [dict(zip(self, row, strict=True)) for row in self._values.T.tolist()]


@dataclass(frozen=True)
class Stretch:
    """Rows with the same names: steps [n], columns with n values each. Iteration gives them one by one."""

    steps: Floats
    columns: Columns

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Row]:
        return zip(self.steps.tolist(), self.columns.dictionaries(), strict=True)


Rows = Sequence[Row] | Stretch


class LineFormat(Protocol):
    """One format of lines."""

    def rows(self, text: Text) -> list[dict[str, Any]] | Columns:
        """The rows that these new lines complete."""
        ...


class JsonLines:
    """One JSON object per line.

    The last row's names make a schema. Where all new lines have these names and plain numbers, they are read by it, at
    a fraction of the cost.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._schema: Schema | None = None

    def rows(self, text: Text) -> list[dict[str, Any]] | Columns:
        """Flat rows; damaged lines are left out."""
        if self._schema is not None and (values := self._schema.values(text)) is not None:
            return Columns(self._names, values)
        rows = [row for line in lines_of(text) if (row := _flat(line)) is not None]
        if rows and tuple(rows[-1]) != self._names:
            self._names, self._schema = tuple(rows[-1]), schema_of(rows[-1])
        return rows


def _flat(line: bytes) -> dict[str, Any] | None:
    try:
        row = msgspec.json.decode(line)
    except UNREADABLE:
        row = _leniently(line)
    except RecursionError:
        return None
    if not isinstance(row, dict):
        return None
    if any(type(value) is dict for value in row.values()):
        table = LogTable()
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

    def __init__(self, run: str | None) -> None:
        self._header = ""
        self._run = run

    def rows(self, text: Text) -> list[dict[str, Any]]:
        """The rows of the chosen run, else of the first one."""
        lines = decoded(lines_of(text))
        if not self._header and lines:
            self._header, *lines = lines
        try:
            tables = csv_table.from_lines([self._header, *lines]).tables if lines else {}
        except ValueError:
            return []
        if self._run is None and tables:
            self._run = next(iter(tables))
        chosen = next((table for run, table in tables.items() if self._run in (run, None) or self._run in run), None)
        return [] if chosen is None else chosen.dictionaries()


THE_END = (
    "Final validation metrics: ",  # verl, behind its last step
    "RL training finished!",  # prime-rl
    "Max number of steps has been reached, stopping training early",  # NeMo-RL
    "Training completes! Total time elapsed",  # AReaL
)
"""What trainers print when they are done, in their sources of 2026. TRL prints `train_runtime`, which is a row."""


class Console:
    """Text of a terminal: all dialects at first, then the one that finds rows. `ended`: its trainer says so."""

    def __init__(self, options: ReadOptions) -> None:
        self._dialects = list(console.dialects(options))
        self._seen = 0
        self.ended = False

    def rows(self, text: Text) -> list[dict[str, Any]]:
        """The rows of the best dialect so far; nothing before it is known which one that is."""
        lines = decoded(lines_of(text))
        for line in lines:
            self.ended |= any(words in line for words in THE_END)
            for dialect in self._dialects:
                dialect.feed(line)
        if len(self._dialects) > 1:
            self._seen += len(lines)
            best = max(self._dialects, key=lambda dialect: dialect.found)
            if best.found < _ENOUGH and (self._seen < _UNDECIDED or best.found == 0):
                return []
            self._dialects = [best]
        return self._dialects[0].drain()


def recognised(path: Path, first: list[bytes], options: ReadOptions) -> LineFormat | None:
    """The format of a file whose first lines these are; None for a document that can only be read as a whole."""
    name, _ = registry.owner(path, "\n".join(decoded(first[:50])).encode())
    if name == "json_lines":
        return JsonLines()
    if name == "csv":
        return Csv(options.run)
    return Console(options) if name == "console" else None


class StepAssigner:
    """Gives rows their step and takes out what does not count: other runs, rows that `where` leaves out."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._run = options.run
        self._step_key = options.step_key or ""
        self._count = 0
        self.ended = False

    def rows(self, found: list[dict[str, Any]] | Columns) -> Rows:
        """Rows with their step; an evaluation's keys stand under `eval/`."""
        if isinstance(found, Columns):
            if self._are_metrics(found) and (abs(steps := found[self._step_key]) < 1e18).all():
                self._note(steps.max(initial=0))
                self.ended &= not len(steps)
                return Stretch(steps, found)
            found = found.dictionaries()
        return [row for names, group in itertools.groupby(found, tuple) for row in self._alike(names, [*group])]

    def _alike(self, names: tuple[str, ...], rows: list[dict[str, Any]]) -> Iterator[Row]:
        steps: list[Any] = [row[self._step_key] for row in rows] if self._are_metrics(names) else []
        if not steps or not {*map(type, steps)} <= NUMBERS or not all(abs(step) < 1e18 for step in steps):
            return self._one_by_one(rows)
        self._note(max(steps))
        self.ended = False
        return zip(steps, rows, strict=True)

    def _are_metrics(self, names: Collection[str]) -> bool:
        """Whether rows of these names are a step and metrics and nothing else: the step is all there is to find."""
        return self._step_key in names and not self._options.where and not _SPECIAL.intersection(names)

    def _one_by_one(self, found: list[dict[str, Any]]) -> Iterator[Row]:
        for row in found:
            if not self._counts(row):
                self.ended |= "train_runtime" in row
                continue
            over = "train_runtime" in row
            self.ended = over or (self.ended and is_evaluation(row))  # training that goes on has not ended
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
        self._note(step)
        return step

    def _note(self, step: float) -> None:
        """Rows without a step go on from the largest one."""
        self._count = max(self._count, int(step) // (self._options.log_every or 1))


def _same(value: Any, wanted: str) -> bool:
    number = scalars.parse(wanted)
    if isinstance(value, int | float) and not isinstance(value, bool) and number is not None:
        return value == number
    return str(value).lower() == wanted.lower() if isinstance(value, bool) else str(value) == wanted


def decoded(lines: list[bytes]) -> list[str]:
    """Text without colour codes and holes."""
    return [source.cleaned(line.decode("utf-8", errors="replace")) for line in lines]
