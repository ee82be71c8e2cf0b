"""SkyRL's console: a line `Step 12: `, then a dictionary over several lines, its decimals in quotes.

    2026-01-01 12:00:00.123 | INFO     | skyrl_train.utils.tracking:log:94 - Step 12:
    {'policy/policy_loss': '0.0134',
     'reward/avg_raw_reward': '0.3125'}

Written from SkyRL's `tracking.ConsoleLogger`; no real log was at hand. The trainer's own line with the raw reward
stands *before* that of its step, so that free text would count it to the step before.
"""

import ast
import re

from grpo_clinic.readers import aliases
from grpo_clinic.readers.dialect import LineRows, is_row
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions

_START = re.compile(r"\bStep (\d{1,12}): ?$")
_PREFIX = re.compile(r"^\s{0,8}\([\w.]{1,60} pid=\d{1,12}[^)\n]{0,80}\)\s?")
_LONGEST = 200_000


class SkyrlConsole(LineRows):
    """One row per dictionary behind the line of a step; one that is cut off or no dictionary is left out."""

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._step: str | None = None
        self._text: list[str] = []
        self._length = 0

    @property
    def found(self) -> int:
        """Rows so far that hold a reward, doubled: free text finds each in the trainer's own line as well."""
        return 2 * self._rewards

    def feed(self, line: str) -> None:
        """Begin at a step, and gather lines until the dictionary is closed."""
        line = line.rstrip("\r\n")
        if "Step " in line and (start := _START.search(line)) is not None:
            self._step, self._text, self._length = start[1], [], 0
            return
        if self._step is None:
            return
        line = _PREFIX.sub("", line)
        self._length += len(line)
        if self._length > _LONGEST or (not self._text and not line.startswith("{")):
            self._step = None
            return
        self._text.append(line)
        if line.endswith("}"):
            self._closed()

    def _closed(self) -> None:
        try:
            row = ast.literal_eval("\n".join(self._text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return  # a brace inside a value: the dictionary goes on
        if isinstance(row, dict) and all(isinstance(key, str) for key in row) and is_row(row, self._options):
            self._keep({**row, "step": self._step})
        self._step = None

    def parsed(self) -> Parsed:
        """All rows."""
        known = any(aliases.matches(mark, key) for mark in aliases.MARKS[aliases.SKYRL] for key in self._table.keys)
        return Parsed("SkyRL console", {"": self._table}, framework=aliases.SKYRL if known else "")
