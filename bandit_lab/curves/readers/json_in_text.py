"""JSON objects inside other text: `2025-01-01 INFO {"step": 3, "reward": 0.4}`."""

import json

from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.readers.dialect import is_row
from bandit_lab.curves.readers.line_rows import LineRows


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
            self._keep(row)

    def parsed(self) -> Parsed:
        """All rows."""
        return Parsed("JSON objects in console text", {"": self._table})
