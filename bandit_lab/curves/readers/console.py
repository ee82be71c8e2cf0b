"""Console text: one pass over the lines, every dialect tried on each, the one that found most rows wins.

Dialects: python dictionaries (TRL, transformers), `step:1 - key:value` (verl), JSON objects inside text, and plain
`name: number` pairs (everything else, OpenRLHF's and prime-rl's console among them; those two were written from
documentation, without a real log to check them on).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bandit_lab.curves import source
from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.readers.free_text import FreeText
from bandit_lab.curves.readers.json_in_text import JsonInText
from bandit_lab.curves.readers.trl_console import TrlConsole
from bandit_lab.curves.readers.verl_console import VerlConsole


class Dialect(Protocol):
    """How one trainer prints.

    For developers: `feed` sees every line once, in order, colour codes removed, and keeps what it recognises in a
    bounded `Table`; `found` counts rows that hold a reward; `parsed` hands over the table. Nothing may raise on odd
    text, no regular expression may backtrack without bound, and no text is ever evaluated.
    """

    def feed(self, line: str) -> None:
        """Look at one line."""

    @property
    def found(self) -> int:
        """Rows so far that hold a reward."""

    def parsed(self) -> Parsed:
        """What was recognised."""


def read(path: Path, options: ReadOptions) -> Parsed:
    """The run in a console log. Raises ValueError if no line holds a metric that any dialect knows."""
    dialects: Sequence[Dialect] = (TrlConsole(options), VerlConsole(options), JsonInText(options), FreeText(options))
    lines = source.Lines(path)
    for line in lines:
        for dialect in dialects:
            dialect.feed(line)
    best = max(dialects, key=lambda dialect: dialect.found)
    if best.found == 0:
        raise ValueError(
            "expected a log with reward lines of a known form, got text without any; "
            "reward_key='text before the number' reads lines of any other form"
        )
    parsed = best.parsed()
    return Parsed(parsed.format, parsed.tables, (*parsed.notes, *lines.notes), parsed.framework)
