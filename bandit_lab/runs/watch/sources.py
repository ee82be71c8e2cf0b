"""What is followed: a file of lines, a document that is written anew, a folder in which either appears."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bandit_lab._text import visible
from bandit_lab.runs.read import Curve, NoRoom, folder, mlflow_run, read, rollout_folder, source
from bandit_lab.runs.read.options import ReadOptions
from bandit_lab.runs.watch.rows import Columns, Console, LineFormat, Row, Rows, StepAssigner, recognised
from bandit_lab.runs.watch.tail import FileTail, Text, lines_of

PATIENCE = 40
"""A document is read again no sooner than so many times the time that its last reading took."""
_FIRST = 2
"""Lines from which a format is recognised."""
_ONE_ROW_A_LINE = (".jsonl", ".ndjson")
"""Names by which one line is enough."""
_LATEST = 2.0
"""Seconds after which a folder is looked at again, at the least."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def about(self) -> str:
        """What is followed."""
        ...

    @property
    def waiting(self) -> str:
        """What for, or nothing."""
        ...

    @property
    def events(self) -> list[str]:
        """Since the start: rotations, restarts."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the log says that the run is over."""
        ...

    @property
    def path(self) -> Path:
        """The file or folder that is read at the moment."""
        ...

    def poll(self) -> Rows:
        """The rows that are new."""
        ...

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        ...

    def close(self) -> Rows:
        """What an unfinished last line holds."""
        ...


@dataclass
class Reading:
    """How the readers are asked: options, and the keywords of `runs.read.read` that say the same."""

    options: ReadOptions
    keywords: dict[str, Any]


class LineFile:
    """A file of lines, read once."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.about, self.waiting, self.ended = visible(str(path)), "", False
        self.path, self._reading = path, reading
        self._tail = FileTail(path)
        self._first = b""
        self._lines: LineFormat | None = None
        self._steps = StepAssigner(reading.options)
        self.document = False

    @property
    def events(self) -> list[str]:
        """What happened to the file."""
        return self._tail.events

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        return self._tail.behind

    def poll(self) -> Rows:
        """The rows of the new lines."""
        cut = len(self.events)
        found = self._rows(self._tail.poll())
        if len(self.events) > cut:  # rows are numbered anew in a file that begins anew
            self._steps = StepAssigner(self._reading.options)
        rows = self._steps.rows(found)
        self.ended = self._steps.ended or (isinstance(self._lines, Console) and self._lines.ended)
        self.waiting = "" if self._lines is not None else f"waits for {'lines in' if self._tail.there else ''} "
        self.waiting = " ".join(f"{self.waiting}{self.about if self.waiting else ''}".split())
        return rows

    def close(self) -> Rows:
        """The row of the last line, should it have no end."""
        return self._steps.rows(self._rows(self._tail.close(), 1))

    def _rows(self, text: Text, least: int = _FIRST) -> list[dict[str, Any]] | Columns:
        if self._lines is None:
            self._first += text
            text, lines = b"", lines_of(self._first)
            least = 1 if self.path.suffix in _ONE_ROW_A_LINE else least
            if sum(bool(line.strip()) for line in lines) >= least:
                self._lines = recognised(self.path, lines, self._reading.options)
                self.document = self._lines is None
                text, self._first = self._first, b""
        return [] if self._lines is None else self._lines.rows(text)


class WholeFile:
    """A file or run folder that can only be read as a whole, which is done when it has changed and rarely enough."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.about, self.waiting, self.ended = visible(str(path)), "", False
        self.events: list[str] = []
        self.behind = False
        self.path, self._reading = path, reading
        self._mark: Any = None
        self._not_before = 0.0
        self._last = -float("inf")

    def poll(self) -> Rows:
        """The rows behind the last one that was given; all from an earlier step on where the log goes back."""
        mark, now = changed(self.path), time.monotonic()
        if mark is None or mark == self._mark or now < self._not_before:
            return []
        try:
            curve: Curve | None = read(self.path, **self._reading.keywords)[0]
            self.waiting, self.ended = "", _is_over(self.path)
        except (ValueError, NoRoom) as error:  # half written, or without rewards so far; or no room to unpack it
            curve, self.waiting = None, f"waits for a log that can be read: {error}"
        self._mark, self._not_before = mark, now + PATIENCE * (time.monotonic() - now)
        if curve is None:
            return []
        last = float(curve.step[-1])
        before = min(self._last, last - 1e-9) if last < self._last else self._last
        self._last = last
        return [(step, row) for step, row in rows_of(curve) if step > before]

    def close(self) -> Rows:
        """What was written since the last reading, whatever it costs."""
        self._not_before = 0.0
        return self.poll()


def rows_of(curve: Curve) -> Iterator[Row]:
    """A curve's rows under the names of the log, in the order of their steps."""
    rows: dict[float, dict[str, Any]] = {}
    series = [curve.reward_series, *curve.series.values(), *([curve.eval] if curve.eval is not None else [])]
    for one in series:
        key = "eval/reward" if one is curve.eval else one.key
        for step, value in zip(one.step.tolist(), one.value.tolist(), strict=True):
            rows.setdefault(step, {})[key] = value
    for step in curve.nonfinite_steps.tolist():
        rows.setdefault(step, {})[curve.reward_series.key] = float("nan")
    yield from sorted(rows.items(), key=lambda item: item[0])


class _Later:
    """A path whose source is not known before there is something in it.

    A look that fails (a file system that is gone for a moment, a folder where the log was) is told and tried again.
    """

    def __init__(self, path: Path, reading: Reading, missing: str) -> None:
        self._path, self._reading, self._missing = path, reading, missing
        self._inner: Source | None = None
        self._own: list[str] = []
        self._failed = ""

    def poll(self) -> Rows:
        """The rows that are new."""
        try:
            rows = self._new_rows()
        except Exception as error:  # of the system, or of a reader
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            failed = f"waits for a log that can be read: {visible(' '.join(str(reason).split()))[:500]}"
            self._own += [failed] if failed != self._failed else []
            self._failed = failed
            return []
        self._failed = ""
        return rows

    def _new_rows(self) -> Rows:
        raise NotImplementedError

    about = property(lambda self: self._inner.about if self._inner else visible(str(self._path)))
    waiting = property(lambda self: self._failed or (self._inner.waiting if self._inner else self._missing))
    events = property(lambda self: [*self._own, *(self._inner.events if self._inner else [])])
    ended = property(lambda self: self._inner is not None and self._inner.ended)
    path = property(lambda self: self._inner.path if self._inner else self._path)
    behind = property(lambda self: self._inner is not None and not self._failed and self._inner.behind)

    def close(self) -> Rows:
        """What the last source still holds."""
        return [] if self._inner is None else self._inner.close()


class Folder(_Later):
    """The log in a folder: the one that `fit` would read, or the one that was written last where there are several."""

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading, f"waits for a log in {visible(str(path))}")
        self._chosen: Path | None = None
        self._not_before = 0.0

    def _new_rows(self) -> Rows:
        self._choose()
        return [] if self._inner is None else self._inner.poll()

    def _choose(self) -> None:
        now = time.monotonic()
        if now < self._not_before:
            return
        try:
            files = folder.logs(self._path).files
        except ValueError as error:
            self._missing, files = f"waits for a log: {error}", []
        self._not_before = now + max(_LATEST, PATIENCE * (time.monotonic() - now))
        newest = max(files, key=lambda file: changed(file) or (0,), default=None)
        if newest is not None and newest != self._chosen:
            if self._chosen is not None:
                self._own.append(f"goes on with {visible(str(newest))}, which was written last")
            self._chosen, self._inner = newest, follow(newest, self._reading)


class File(_Later):
    """A file whose form is not known before there is something in it."""

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(path, reading, f"waits for {visible(str(path))}")

    def _new_rows(self) -> Rows:
        if self._inner is None and (changed(self._path) or (0, 0))[1]:
            whole = not os.path.isdir(self._path) and _only_whole(self._path)
            form: Any = Folder if os.path.isdir(self._path) else WholeFile if whole else LineFile
            self._inner = form(self._path, self._reading)
        if self._inner is None:
            return []
        rows = self._inner.poll()
        if isinstance(self._inner, LineFile) and self._inner.document:
            self._inner = WholeFile(self._path, self._reading)
            rows = self._inner.poll()
        return rows


def _is_over(path: Path) -> bool:
    """Whether a trainer's state says that its last step has been taken: `global_step` is `max_steps`."""
    if path.suffix.lower() != ".json":
        return False
    state = json.loads(source.text(path))
    step, last = (state.get(name) for name in ("global_step", "max_steps")) if isinstance(state, dict) else (None, None)
    return isinstance(step, int) and isinstance(last, int) and step >= last > 0


def follow(path: Path, reading: Reading) -> Source:
    """The source that a path means; it need not exist."""
    if os.path.isdir(path):
        try:
            whole = mlflow_run.is_run(path) or rollout_folder.is_run(path, sorted(os.listdir(path)))
        except OSError:  # no right to look, or gone again
            whole = False
        return WholeFile(path, reading) if whole else Folder(path, reading)
    return File(path, reading)


def _only_whole(path: Path) -> bool:
    """Whether these bytes cannot be followed line by line."""
    if path.suffix.lower() in (".ipynb", ".json"):
        return True
    start = source.head(path)
    try:
        source.refuse_binary(start)
    except ValueError:  # packed, Parquet, wandb's own: what can be read as a whole, and who says what is missing
        return True
    return start.startswith((b"\xff\xfe", b"\xfe\xff")) or "tfevents" in path.name


def changed(path: Path) -> tuple[int, int] | None:
    """(time of the last change, size) of a file, or of the newest file in a folder."""
    try:
        own = os.stat(path)
        if not os.path.isdir(path):
            return own.st_mtime_ns, own.st_size
        inside = [os.stat(os.path.join(place, name)) for place, _, names in os.walk(path) for name in names]
    except OSError:
        return None
    return max((one.st_mtime_ns for one in inside), default=0), sum(one.st_size for one in inside)
