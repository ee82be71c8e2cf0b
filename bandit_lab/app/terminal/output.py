"""Lines for people on stdout and stderr, which may be closed, full or gone: a run is what is in its folder.

A reader that has seen enough (`| head -1`) is no error. A stdout that cannot be written (a full disk) is noted: the
command goes on, and says so at its end. Progress is on stderr: which stage, how far, how long; nothing when stderr is
not a terminal or `quiet=true`.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_lost: list[str] = []


def ready() -> None:
    """Give a process that was started without stdout or stderr (`>&-`) ones that lead nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def say(text: str) -> None:
    """Print on stdout."""
    with _delivered("stdout"):
        print(text, flush=True)  # noqa: T201


def tell(text: str) -> None:
    """Print on stderr."""
    with _delivered("stderr"):
        print(text, file=sys.stderr, flush=True)  # noqa: T201


def lost() -> str | None:
    """The last error of stdout, or None; clears it."""
    reason = _lost[0] if _lost else None
    _lost.clear()
    return reason


@contextlib.contextmanager
def _delivered(name: str) -> Iterator[None]:
    """Inside, a stream is written and flushed; when it cannot be, what follows goes nowhere."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and name == "stdout":
            _lost.append(error.strerror or str(error))
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), getattr(sys, name).fileno())  # also for what is flushed when Python ends


ProgressCallback = Callable[[int, int], None]


class Progress:
    """Stages of a run. Also keeps how many seconds each took, for the manifest."""

    def __init__(self, quiet: bool) -> None:
        self.shown = sys.stderr.isatty() and not quiet
        self.seconds: dict[str, float] = {}
        self._live: Any = None

    @contextlib.contextmanager
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
