"""Rows of metrics that stand on one line each of a text, whatever their form."""

from collections.abc import Mapping

from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.readers.dialect import holds_reward
from bandit_lab.curves.table import Table


class LineRows:
    """The rows found so far; a dialect adds `feed(line)` and `parsed()`."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._table = Table()
        self._rewards = 0

    @property
    def found(self) -> int:
        """Rows so far that hold a reward."""
        return self._rewards

    def _keep(self, row: Mapping[str, object]) -> None:
        self._rewards += holds_reward(row, self._options)
        self._table.add(row)
