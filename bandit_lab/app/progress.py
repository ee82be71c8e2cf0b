"""What a command says while it works: lines, how far it is, and why it stops.

Streams may be closed, full or gone: a run is what is in its folder. A reader that has seen enough (`| head -1`) is no
error; a stdout that cannot be written ends the command once its run is kept. Progress is on stderr: which stage, how
far, how long; bars on a terminal, elsewhere (a pipe, a notebook) a line every ten seconds.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class BadInput(ValueError):
    """Bad input, found before any work."""


class Stopped(RuntimeError):
    """A run that is not whole; the same command goes on with it. It could not go on for a reason outside of it, such as
    a full disk, or, `ended`, came to its end with parts missing."""

    def __init__(self, text: str, ended: bool = False) -> None:
        super().__init__(text)
        self.ended = ended


@contextlib.contextmanager
def bad_input() -> Iterator[None]:
    """Inside, a ValueError is the user's: it leaves as `BadInput`."""
    try:
        yield
    except ValueError as error:
        raise BadInput(str(error)) from error


@contextlib.contextmanager
def stopped_by_disk(folder: Path) -> Iterator[None]:
    """Inside, an OSError is the disk's: it leaves as `Stopped`."""
    try:
        yield
    except OSError as error:
        raise Stopped(f"{folder}: cannot be written ({error.strerror or error})") from error


def say(text: str) -> None:
    """Print on stdout. Raises Stopped where it is full."""
    _write("stdout", text)


def tell(text: str) -> None:
    """Print on stderr."""
    _write("stderr", text)


def _write(name: str, text: str) -> None:
    stream = getattr(sys, name)
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        with open(os.devnull, "wb") as nowhere:  # for what follows, and for what Python flushes when it ends
            os.dup2(nowhere.fileno(), stream.fileno())
        if name == "stdout" and not isinstance(error, BrokenPipeError):
            raise Stopped(f"stdout: cannot be written ({error.strerror})", ended=True) from error


ProgressCallback = Callable[[int, int], None]
EVERY = 10.0  # seconds between two lines of progress


class Progress:
    """Stages of a run. Also keeps how many seconds each took, for the manifest."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.seconds: dict[str, float] = {}
        self._told = time.monotonic()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[ProgressCallback]:
        """One stage; yields `(done, total) -> None` for the code that knows how far it is."""
        start = time.perf_counter()
        try:
            if self.quiet or not sys.stderr.isatty():
                yield lambda done, total: self._line(f"{name}: {done} of {total}, {time.perf_counter() - start:.0f} s")
            else:
                with self._bar() as bar:
                    task = bar.add_task(name, total=None)
                    yield lambda done, total: bar.update(task, completed=done, total=total)
                    whole = bar.tasks[task].total or 1
                    bar.update(task, completed=whole, total=whole)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def _line(self, text: str) -> None:
        """Say it, unless the last line is younger than ten seconds."""
        if not self.quiet and time.monotonic() - self._told >= EVERY:
            self._told = time.monotonic()
            tell(text)

    def _bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bars, TextColumn, TimeElapsedColumn

        name = TextColumn("{task.description:<34}", markup=False)
        columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return Bars(*columns, console=Console(stderr=True))
