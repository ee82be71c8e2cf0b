"""Progress on stderr: which stage, how far, how long; nothing when stderr is not a terminal or `quiet=true`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ProgressCallback = Callable[[int, int], None]


class Progress:
    """Stages of a run. Also keeps how many seconds each took, for the manifest."""

    def __init__(self, quiet: bool) -> None:
        self.shown = sys.stderr.isatty() and not quiet
        self.seconds: dict[str, float] = {}
        self._live: Any = None

    @contextmanager
    def stage(self, name: str) -> Iterator[ProgressCallback]:
        """One stage; yields `(done, total) -> None` for the code that knows how far it is."""
        start = time.perf_counter()
        try:
            if not self.shown:
                yield _silent
            else:
                with self._bar() as bar:
                    task = bar.add_task(name, total=None)
                    yield lambda done, total: bar.update(task, completed=done, total=total)
                    known = bar.tasks[task].total or 1
                    bar.update(task, completed=known, total=known)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def _bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bars, TextColumn, TimeElapsedColumn

        name = TextColumn("{task.description:<34}", markup=False)
        columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Bars(*columns, console=Console(stderr=True))


def _silent(done: int, total: int) -> None:
    return None
