"""Lines for people on stdout and stderr, which may be closed, full or gone: a run is what is in its folder.

A reader that has seen enough (`| head -1`) is no error. A stdout that cannot be written (a full disk) is noted: the
command goes on, and says so at its end.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator

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


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Inside, nothing is printed on stdout."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


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
