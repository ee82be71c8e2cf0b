"""Console text: one pass over the lines, every dialect tried on each, the one that found most rows wins.

Dialects: python dictionaries (TRL, transformers, ms-swift, slime), `step:1 - key:value` (verl), `Step 1 | Name: value`
(prime-rl, Megatron), AReaL's grids, SkyRL's steps, JSON objects inside text, and plain `name: number` pairs.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from grpo_clinic.readers import aliases, limits, source
from grpo_clinic.readers.areal_console import ArealConsole
from grpo_clinic.readers.dialect import LineRows, is_reward_key, is_row, with_stated_step
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.piped_console import PipedConsole
from grpo_clinic.readers.registry import register_reader
from grpo_clinic.readers.scalars import NUMBER
from grpo_clinic.readers.skyrl_console import SkyrlConsole
from grpo_clinic.readers.trl_console import TrlConsole

_VERL_ROW = re.compile(r"(?<![\w/])step:\s?(\d{1,12})\s-\s")
_VALUE = rf"(?:np\.float\d\d\()?({NUMBER})%?"
_FREE_PAIR = re.compile(
    rf"(?<![\w/.\-])([A-Za-z_][\w/@.\-]{{0,60}})['\"]?\s{{0,4}}[:=]\s{{0,4}}['\"]?{_VALUE}(?![\w.])"
)
_STEP = re.compile(r"\b(?:global[_ ])?(?:step|iteration|iter|update)s?[\s:=#]{1,4}(\d{1,12})\b", re.IGNORECASE)
_MENTIONS_STEP = re.compile(r"step|iter|update", re.IGNORECASE)
_MENTIONS_REWARD = re.compile(r"reward|score|return", re.IGNORECASE)
_LONGEST = 20_000


class Dialect(Protocol):
    """How one trainer prints.

    For developers: `feed` sees every line once, in order, colour codes removed, and keeps what it recognises in a
    bounded `LogTable`; `found` counts rows that hold a reward; `parsed` hands over the table, `drain` what is new.
    Nothing may raise on odd text, no regular expression may backtrack without bound, and no text is ever evaluated.
    """

    def feed(self, line: str) -> None:
        """Look at one line."""

    @property
    def found(self) -> int:
        """Rows so far that hold a reward."""

    @property
    def rows(self) -> int:
        """Rows since the last `drain`, with a reward or without."""

    def parsed(self) -> Parsed:
        """What was recognised."""

    def drain(self) -> list[dict[str, object]]:
        """The rows since the last call, which are then forgotten."""


def dialects(options: ReadOptions) -> Sequence[Dialect]:
    """Every dialect, ready to be fed; where several find as many rows the first of them counts."""
    return (
        TrlConsole(options),
        VerlConsole(options),
        PipedConsole(options),
        ArealConsole(options),
        SkyrlConsole(options),
        JsonInText(options),
        FreeText(options),
    )


def read(path: Path, options: ReadOptions) -> Parsed:
    """The run in a console log. Raises ValueError if no line holds a metric that any dialect knows."""
    lines = source.Lines(path)
    parsed = from_lines(lines, options)
    return replace(parsed, notes=(*parsed.notes, *lines.notes))


def or_console(
    parse: Callable[[Path, ReadOptions], Parsed], path: Path, options: ReadOptions, *, surely: bool = False
) -> Parsed:
    """What `parse` makes of a text file; where that fails, the run in it as console text, unless it is `surely` none.

    Raises ValueError for binary data, and that of `parse` where both fail.
    """
    source.refuse_binary(source.head(path))
    try:
        return parse(path, options)
    except limits.TooLarge:
        raise
    except ValueError as error:
        if surely:
            raise
        try:
            return read(path, options)
        except limits.TooLarge:
            raise
        except ValueError:
            raise error from None


def from_lines(lines: Iterable[str], options: ReadOptions) -> Parsed:
    """The run in lines of text. Raises ValueError as `read` does."""
    every = dialects(options)
    for line in lines:
        for dialect in every:
            dialect.feed(line)
    best = max(every, key=lambda dialect: (dialect.found, dialect.rows))
    if best.rows == 0:
        raise ValueError(
            "expected a log with reward lines of a known form, got text without any; "
            "reward_key='text before the number' reads lines of any other form"
        )
    return best.parsed()


class JsonInText(LineRows):
    """The text from the first `{"` to the last `}` of a line, where that is a JSON object."""

    def feed(self, line: str) -> None:
        """Take one line apart if it holds an object."""
        start, end = line.find('{"'), line.rfind("}")
        if start < 0 or end < start or end - start > 100_000:
            return
        try:
            row = json.loads(line[start : end + 1])
        except (ValueError, RecursionError):
            return
        if isinstance(row, dict) and is_row(row, self._options):
            self._keep(with_stated_step(row))

    def parsed(self) -> Parsed:
        """All rows."""
        return Parsed("JSON objects in console text", {"": self._table})


class VerlConsole(LineRows):
    """Lines of `key:value` pairs joined by ` - `, with the rollout cycle as the first pair."""

    def feed(self, line: str) -> None:
        """Take one line apart if it is a row."""
        start = _VERL_ROW.search(line) if "step:" in line else None
        if start is None:
            return
        row: dict[str, object] = {}
        for pair in line[start.end() :].split(" - "):
            key, colon, value = pair.strip().rpartition(":")
            if colon and key:
                row[key] = value
        if row:
            self._keep({**row, "step": start[1]})

    def parsed(self) -> Parsed:
        """All rows; validation columns stand in rows of their own or beside the training ones."""
        verl = any(aliases.matches(mark, key) for mark in aliases.MARKS[aliases.VERL] for key in self._table.keys)
        return Parsed("verl console", {"": self._table}, framework=aliases.VERL if verl else "")


class FreeText(LineRows):
    """Pairs on lines that hold a reward; with a `reward_key` its literal text is looked for, spaces and all."""

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._step: str | None = None
        self._literal = None
        if options.reward_key:
            key = re.escape(options.reward_key.strip().rstrip(":=").strip())
            self._literal = re.compile(rf"{key}['\"]?\s{{0,4}}[:=]?\s{{0,8}}['\"]?{_VALUE}", re.IGNORECASE)

    @property
    def found(self) -> int:
        """Rows so far that hold a reward, halved: a structured dialect that found as many is to be preferred."""
        return (self._rewards + 1) // 2

    def feed(self, line: str) -> None:
        """Keep the pairs of a line that holds a reward, and remember the step of any line."""
        if len(line) > _LONGEST:
            return
        step = _STEP.search(line) if _MENTIONS_STEP.search(line) else None
        if step:
            self._step = step[1]
        row: dict[str, object] = {}
        if self._literal is not None:
            hit = self._literal.search(line)
            if hit is None:
                return
            row[self._options.reward_key or ""] = hit[1]
        elif not _MENTIONS_REWARD.search(line):
            return
        pairs = {m[1]: m[2] for m in _FREE_PAIR.finditer(line)}
        rewarded = [key for key in pairs if is_reward_key(key) or is_reward_key(key.lower())]
        if self._literal is None and not rewarded:
            return
        row |= {key.lower() if key in rewarded else key: value for key, value in pairs.items()}
        if self._step is not None and "step" not in row:
            row["step"] = self._step
        self._rewards += 1
        self._table.add(row)

    def parsed(self) -> Parsed:
        """All rows that held a reward."""
        return Parsed("free text", {"": self._table})


@register_reader("console")
class ConsoleText:
    """Any other text."""

    order = 80

    def owns(self, path: Path, start: bytes) -> bool:
        """Whatever no reader before this one knows; binary data is refused."""
        return True

    def read(self, path: Path, options: ReadOptions) -> Parsed:
        """As `read` of this file. Raises ValueError for binary data."""
        return or_console(read, path, options, surely=True)
