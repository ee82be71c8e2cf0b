"""AReaL's console: `Epoch 1/10 Step 3/58 Train step 3/580 done.`, then grids of names and numbers.

Written from AReaL's `StatsLogger.commit` and `tabulate_stats`; no real log was at hand.
"""

import re
from itertools import pairwise

from grpo_clinic.readers import aliases, scalars
from grpo_clinic.readers.dialect import LineRows
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions

_STEP = re.compile(r"\bTrain step (\d{1,12})/\d{1,12} done")
_BARS = re.compile(r"[│║┃|]")
_NAME = re.compile(r"[A-Za-z][\w/@.\-]{1,200}")
_MOST = 2_000


class ArealConsole(LineRows):
    """The grids behind the announcement of a step belong to it."""

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._row: dict[str, object] = {}
        self._step: str | None = None

    def feed(self, line: str) -> None:
        """Note a step, or take the cells of a grid."""
        if match := _STEP.search(line):
            self._flush()
            self._step = match[1]
        elif self._step is not None and _BARS.search(line):
            cells = [cell.strip() for cell in _BARS.split(line)[:100]]
            for name, value in pairwise(cells):
                if _NAME.fullmatch(name) and len(self._row) < _MOST and scalars.parse(value) is not None and value:
                    self._row[name] = value

    def _flush(self) -> None:
        if self._row and self._step is not None:
            self._keep({**self._row, "step": self._step})
        self._row = {}

    def parsed(self) -> Parsed:
        """All rows, the last one included."""
        self._flush()
        return Parsed("AReaL console", {"": self._table}, framework=aliases.AREAL)

    @property
    def found(self) -> int:
        """Rows so far that hold a reward, the open one included."""
        return self._rewards + bool(self._row)
