"""`watch`: reads a log again whenever it has grown, and diagnoses it again."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from grpo_clinic.clinic import Diagnosed, diagnosed
from grpo_clinic.logs.settings import DiagnosisSettings


def watched(
    settings: DiagnosisSettings, every: float = 5.0, seconds: float | None = None, idle: float | None = None
) -> Iterator[list[Diagnosed]]:
    """The diagnosis of one log or folder whenever it has changed; it need not exist yet.

    every: seconds between two looks. seconds: how long in all. idle: end when nothing new came for so long.
    """
    path = Path(settings.paths[0])
    start = fresh = time.monotonic()
    mark: object = None
    while True:
        now, before = time.monotonic(), mark
        if (mark := _mark(path)) != before:
            fresh = now
            with contextlib.suppress(ValueError):  # not there, or too short to say anything
                yield diagnosed(settings)[0]
        over = seconds is not None and now - start >= seconds
        if over or (idle is not None and now - fresh >= idle):
            return
        time.sleep(every)


def _mark(path: Path) -> object:
    """Sizes and times of what is read; they differ once it has grown."""
    names = [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]
    return [(str(one), os.stat(one).st_size, os.stat(one).st_mtime_ns) for one in names if one.exists()]
