"""Console text: one pass over the lines, every dialect tried on each, the one that found most rows wins.

Dialects: python dictionaries (TRL, transformers, ms-swift, slime), `step:1 - key:value` (verl), `Step 1 | Name: value`
(prime-rl, Megatron), AReaL's grids, SkyRL's steps, and plain `name: number` pairs.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from grpo_clinic.readers import source
from grpo_clinic.readers.dialect import LineRows, is_reward_key
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.scalars import NUMBER
from grpo_clinic.readers.table import Parsed
from grpo_clinic.readers.trainer_consoles import CONSOLES
from grpo_clinic.readers.trl_console import TrlConsole

_VERL_ROW = re.compile(r"(?<![\w/])step:\s?(\d{1,12})\s-\s")
_VALUE = rf"(?:np\.float\d\d\()?({NUMBER})%?"
_FREE_PAIR = re.compile(
    rf"(?<![\w/.\-])((?:mean )?[A-Za-z_][\w/@.\-]{{0,60}}(?: mean)?)['\"]?\s{{0,4}}[:=]\s{{0,4}}['\"]?{_VALUE}(?![\w.])"
)
_STEP = re.compile(r"\b(?:global[_ ])?(?:step|iteration|iter|update)s?[\s:=#]{1,4}(\d{1,12})\b", re.IGNORECASE)
_PLACE = re.compile(r"\((\d{1,12})/\d{1,12}\)")
_MENTIONS_STEP = re.compile(r"step|iter|update", re.IGNORECASE)
_MENTIONS_REWARD = re.compile(r"reward|score|return", re.IGNORECASE)
_LONGEST = 20_000


def read(path: Path, options: ReadOptions) -> Parsed:
    """The run in a console log. Raises ValueError if no line holds a metric that any dialect knows."""
    lines = source.Lines(path)
    parsed = from_lines(lines, options)
    return replace(parsed, notes=(*parsed.notes, *lines.notes))


def from_lines(lines: Iterable[str], options: ReadOptions) -> Parsed:
    """The run in lines of text. Raises ValueError as `read` does."""
    every = [dialect(options) for dialect in _DIALECTS]
    for line in lines:
        for dialect in every:
            dialect.feed(line)
    for dialect in every:
        dialect.close()
    best = max(every, key=lambda one: (math.ceil(one.worth * one.rewards), one.table.rows))
    if best.table.rows == 0:
        raise ValueError(
            "expected a log with reward lines of a known form, got text without any; "
            "reward_key='text before the number' reads lines of any other form"
        )
    return best.parsed()


class _VerlConsole(LineRows):
    """Lines of `key:value` pairs joined by ` - `, with the rollout cycle as the first pair."""

    kind = "verl console"

    def feed(self, line: str) -> None:
        """Take one line apart if it is a row."""
        start = _VERL_ROW.search(line) if "step:" in line else None
        if start is None:
            return
        pairs = [pair.strip().rpartition(":") for pair in line[start.end() :].split(" - ")]
        if row := {key: value for key, colon, value in pairs if colon and key}:
            self._keep({**row, "step": start[1]})


class _FreeText(LineRows):
    """Pairs on lines that hold a reward; with a `reward_key` its literal text is looked for, spaces and all.

    A structured dialect that finds as many rewards is to be preferred.
    """

    kind, worth = "free text", 0.5

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._step: str | None = None
        self._literal = None
        if options.reward_key:
            key = re.escape(options.reward_key.strip().rstrip(":=").strip())
            self._literal = re.compile(rf"{key}['\"]?\s{{0,4}}[:=]?\s{{0,8}}['\"]?{_VALUE}", re.IGNORECASE)

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
        place = _PLACE.search(line)  # the row's own, before one of another line
        if "step" not in row and (place or self._step is not None):
            row["step"] = place[1] if place else self._step
        self.rewards += 1
        self.table.add(row)


_DIALECTS = (TrlConsole, _VerlConsole, *CONSOLES, _FreeText)
"""Where several find as many rows the first of them counts."""
