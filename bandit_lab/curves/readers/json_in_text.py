"""JSON objects inside other text: `2025-01-01 INFO {"step": 3, "reward": 0.4}`."""

import json

from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.readers.dialect import holds_reward, is_row
from bandit_lab.curves.table import Table


class JsonInText:
    """The text from the first `{"` to the last `}` of a line, where that is a JSON object."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._table = Table()
        self._rewards = 0

    @property
    def found(self) -> int:
        """Rows so far that hold a reward."""
        return self._rewards

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
            self._rewards += holds_reward(row, self._options)
            self._table.add(row)

    def parsed(self) -> Parsed:
        """All rows."""
        return Parsed("JSON objects in console text", {"": self._table})
