"""Lines for people on stdout and stderr, which may be closed, full or gone: a run is what is in its folder.

A reader that has seen enough (`| head -1`) is no error. A stdout that cannot be written (a full disk) is noted: the
command goes on, and says so at its end. Progress is on stderr: which stage, how far, how long; bars on a terminal,
elsewhere (a pipe, a notebook) a line every ten seconds. A mistake is one line that names the key, what was expected and
what was got.
"""

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bandit_lab._checks import did_you_mean, nearest, one_of
from bandit_lab.app.settings.config import CHOICES, SCHEMAS, listed

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


class BadInput(ValueError):
    """Bad input, found before any work."""


class Stopped(RuntimeError):
    """A run that is not whole; the same command goes on with it. It could not go on for a reason outside of it, such as
    a full disk, or, `ended`, came to its end with parts missing."""

    def __init__(self, text: str, ended: bool = False) -> None:
        super().__init__(text)
        self.ended = ended


@contextlib.contextmanager
def stopped_by_disk(folder: Path) -> Iterator[None]:
    """Inside, an OSError is the disk's: it leaves as `Stopped`."""
    try:
        yield
    except OSError as error:
        raise Stopped(f"{folder}: cannot be written ({error.strerror or error})") from error


@contextlib.contextmanager
def bad_input() -> Iterator[None]:
    """Inside, a ValueError is the user's: it leaves as `BadInput`, but for OmegaConf's, which `one_line` words."""
    try:
        yield
    except ValueError as error:
        if _is_from_config(error):
            raise
        raise BadInput(str(error)) from error


def one_line(error: BaseException, command: str) -> str | None:
    """The line to print for bad input, or None if the error is not the user's."""
    if isinstance(error, BadInput):
        return " ".join(str(error).split())
    if isinstance(error, OverflowError) and (key := re.search(r"full_key: (\S+)", str(error))):  # OmegaConf's float()
        return f"{key[1]}: expected {_expected(key[1], command)}, got an integer that no float holds"
    return _from_hydra(error, command) if _is_from_config(error) else None


def _is_from_config(error: BaseException) -> bool:
    """Whether Hydra or OmegaConf raised it."""
    from hydra.errors import HydraException, OverrideParseException, SearchPathException
    from omegaconf.errors import OmegaConfBaseException

    kinds = (HydraException, OverrideParseException, SearchPathException, OmegaConfBaseException)
    return isinstance(error, kinds)


def _from_hydra(error: BaseException, command: str) -> str:
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

    if isinstance(error, MissingConfigException) and error.options:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        return f"{group}: expected {one_of(name, error.options)}, got {name!r}"
    if isinstance(error, OverrideParseException):
        key = nearest(str(error.override).partition("=")[0].strip(), _keys(command))
        expected = f"{key}=VALUE" if key else "key=value"
        return f"override: expected {expected}, got {error.override!r} (put quotes around lists and mappings)"
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        key = str(cause.full_key or cause.key)
        group, _, option = key.partition(".")
        if group in CHOICES and option:
            return f"{key}: expected {_options(cause.parent_node, group, option)}, got an unknown option"
        near = did_you_mean(key, _keys(command)) or " (see --help)"
        return f"{key}: expected a setting of {command}{near}, got an unknown key"
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return f"{cause.full_key}: expected {_expected(str(cause.full_key), command)}, got {_got(error, cause)}"
    if odd := re.match(r"Could not \w+ .*?'(.*?)'", str(error)):
        return f"override: expected key=value with a setting of {command}, got {odd[1]!r}"
    if several := re.match(r"Ambiguous value for argument '(.+?)=(.+?)'", str(error)):
        key, value = several.groups()
        return f"{key}: expected one value, a list ({key}=[{value}]), or -m for a run per value, got {value!r}"
    return " ".join(str(error).split())


def _options(chosen: Any, group: str, word: str) -> str:
    """Options of the chosen variant: the keys of its mapping."""
    keys = [str(key) for key in chosen or ()]
    options = [key for key in keys if key != "name"]
    name = f"{group}={chosen.get('name')}" if "name" in keys else group
    near = did_you_mean(word, options) or f" ({', '.join(options)})"
    return f"an option of {name}{near}" if options else f"no options of {name}"


def _keys(command: str) -> list[str]:
    """Every key of a command."""
    return [key for key, *_ in listed(SCHEMAS[command])]


def _expected(key: str, command: str) -> str:
    if key in CHOICES:
        return "a variant's name"
    for name, entry, _ in listed(SCHEMAS[command]):
        if name == key:
            text = str(entry.type if not isinstance(entry.type, type) else entry.type.__name__)
            plain = _PLAIN.get(text.removesuffix(" | None").partition("[")[0], "another type of value")
            return f"{plain} or null" if "None" in text else plain
    return "another type of value"


_PLAIN = {
    "list": "a list",
    "dict": "a mapping {key: value}",
    "float": "a number",
    "int": "an integer",
    "bool": "true or false",
    "str": "a name",
}


def _got(error: BaseException, cause: Any) -> str:
    text = str(error)
    if "Error merging override" in text and "=" in text:
        return repr(text.split("=", 1)[1].strip())
    if cause.value is None and "not Optional" in text:
        return "null"
    return repr(cause.value) if cause.value is not None else str(cause).splitlines()[0]
