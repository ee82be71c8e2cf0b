"""Work on many logs, one piece each: here one after another, or on the workers of an engine."""

import contextlib
import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bandit_lab.app import engine
from bandit_lab.app.chunks import key_of
from bandit_lab.app.terminal.errors import Stopped, bad_input
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs.logs.gather import Log
from bandit_lab.runs.logs.settings import LogSettings

Result = TypeVar("Result")
_PACKED = "packed"


@dataclass(frozen=True)
class LogPiece:
    """The work on one log. decides: the hash of the log and of what the work is told beside it."""

    log: Log
    work: Callable[[Log], Any]
    decides: str

    kind = "log"
    size = 1.0

    @property
    def what(self) -> str:
        """The log."""
        return self.log.name

    def identity(self) -> dict[str, Any]:
        """The hash."""
        return {"decides": self.decides}

    def compute(self) -> Mapping[str, np.ndarray]:
        """What was found, as bytes."""
        return {_PACKED: np.frombuffer(pickle.dumps(self.work(self.log)), np.uint8)}


def worked(
    logs: Sequence[Log], work: Callable[[Log], Result], settings: LogSettings, run: Progress, stage: str
) -> list[Result | None]:
    """What the work finds in each log; None where there is no curve.

    work: a function of the module, or a `partial` of one: it may be sent elsewhere.

    Raises:
      BadInput: the engine has nobody who could compute.
      Stopped: the engine is gone, or a worker failed at a log.
    """
    found: list[Result | None] = [None] * len(logs)
    there = [place for place, log in enumerate(logs) if log.curve is not None]
    done = len(logs) - len(there)
    if settings.engine["name"] == "local":
        with run.stage(stage) as advance:
            for place in there:
                found[place] = work(logs[place])
                advance(done := done + 1, len(logs))
        return found
    pieces = [_piece(logs[place], work) for place in there]
    with contextlib.ExitStack() as stack:
        with bad_input():
            opened = engine.chosen(settings).opened(settings.plugins, laboratory=False)
            attempts = stack.enter_context(opened)
        advance = stack.enter_context(run.stage(stage))
        for number, attempt in attempts(pieces, [key_of(one) for one in pieces]):
            if attempt.reason is not None:
                raise Stopped(f"engine: {pieces[number].what}: {attempt.reason}")
            found[there[number]] = pickle.loads(attempt.arrays[_PACKED].tobytes())
            advance(done := done + 1, len(logs))
    return found


def _piece(log: Log, work: Callable[[Log], Any]) -> LogPiece:
    import cloudpickle

    return LogPiece(log, work, hashlib.sha256(cloudpickle.dumps((log, work))).hexdigest())
