"""verl's console: `step:12 - critic/rewards/mean:0.31 - ...`, plain or in np.float64(...), after any prefix."""

import re

from bandit_lab.curves import aliases
from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.readers.line_rows import LineRows

_START = re.compile(r"(?<![\w/])step:\s?(\d{1,12})\s-\s")


class VerlConsole(LineRows):
    """Lines of `key:value` pairs joined by ` - `, with the rollout cycle as the first pair."""

    def feed(self, line: str) -> None:
        """Take one line apart if it is a row."""
        start = _START.search(line) if "step:" in line else None
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
