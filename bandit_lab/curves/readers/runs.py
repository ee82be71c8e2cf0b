"""Several runs in one file: rows are dealt out to one table per run by a column that names the run."""

from collections.abc import Mapping

from bandit_lab._text import visible
from bandit_lab.curves import limits
from bandit_lab.curves.table import Kept, Table

RUN_KEYS = ("run_name", "run_id", "run", "experiment_name", "experiment", "exp_name", "exp", "trial")


class RunTables:
    """One table per run; rows without a run name form a table of their own, named ''."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._kept = Kept()

    def add(self, row: Mapping[str, object]) -> None:
        """Put one row into the table of its run."""
        self.table(run_of(row)).add(row)

    def table(self, run: str) -> Table:
        """The table of one run, made when first asked for. Raises TooLarge beyond the largest number of runs."""
        run = visible(run)
        if run not in self._tables:
            if len(self._tables) >= limits.MAX_RUNS:
                raise limits.TooLarge(f"expected at most {limits.MAX_RUNS} runs in one log, got more")
            self._tables[run] = Table(self._kept)
        return self._tables[run]

    def done(self) -> dict[str, Table]:
        """The tables by run, those without any number left out."""
        return {run: table for run, table in self._tables.items() if table.keys}


def run_of(row: Mapping[str, object]) -> str:
    """The run that a row names, '' if it names none."""
    for key in RUN_KEYS:
        name = row.get(key)
        if isinstance(name, str) and name:
            return name[: limits.MAX_KEY]
    return ""
