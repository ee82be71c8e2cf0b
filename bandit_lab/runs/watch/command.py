"""`watch`: reads a log again whenever it has grown, and diagnoses it again."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.chunks import durable
from bandit_lab.app.document import Document
from bandit_lab.app.document.as_page import HEAD, as_html
from bandit_lab.app.folder.outputs import begins, file_in
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.errors import stopped_by_disk
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs.diagnose import command as diagnose
from bandit_lab.runs.logs.gather import reading_options
from bandit_lab.runs.logs.settings import PASTED, WatchSettings

PAGE = "page.html"


@dataclass(frozen=True)
class WatchPlan:
    """Checked settings; `path` is what is read, and need not exist yet."""

    settings: WatchSettings
    path: Path


def prepare(settings: WatchSettings, explicit: frozenset[str]) -> WatchPlan:
    """Check every setting; nothing is opened. Raises ValueError."""
    one = len(settings.paths) == 1 and settings.paths[0] != PASTED
    _checks.require(one, "paths", "one log or folder", ", ".join(settings.paths) or _checks.NOTHING)
    for name in ("seconds", "idle", "every"):
        if getattr(settings, name) is not None:
            _checks.positive(name, getattr(settings, name))
    diagnose.thresholds(settings)
    reading_options(settings)
    if settings.run_dir is not None:
        file_in(settings.run_dir, PAGE, begins(HEAD), settings.paths)
    return WatchPlan(replace(settings, quiet=True, report=True, pictures=False), Path(settings.paths[0]))


def execute(plan: WatchPlan, folder: Any, progress: Progress) -> Path:
    """Print the verdict whenever it changes, and the whole diagnosis at the end. Returns the page, or the log."""
    last, verdict = None, ""
    with contextlib.suppress(KeyboardInterrupt):  # a watcher is ended by it
        for last in _diagnoses(plan):
            if (now := _verdict(last)) != verdict:
                verdict = now
                report.show(f"{time.strftime('%H:%M:%S')}  {verdict}")
    if last is not None:
        last.show()
    return plan.path if plan.settings.run_dir is None else Path(plan.settings.run_dir, PAGE)


def compute(plan: WatchPlan, progress: Progress) -> Document:
    """The last diagnosis. Raises ValueError if nothing could be judged."""
    last = None
    with contextlib.suppress(KeyboardInterrupt):
        for found in _diagnoses(plan):
            last = found
    if last is None:
        raise ValueError(f"paths: expected a log that can be read, got {plan.path}")
    return last


def _verdict(found: Document) -> str:
    (row,) = found.to_dict()["logs"][:1]
    return ", ".join(row["verdict"] or ["not judged"]).replace("_", " ")


def _diagnoses(plan: WatchPlan) -> Iterator[Document]:
    """A diagnosis whenever the log has changed, until the time is over; the page is written with each."""
    settings = plan.settings
    start = fresh = time.monotonic()
    mark: object = None
    while True:
        now, before = time.monotonic(), mark
        if (mark := _mark(plan.path)) != before:
            fresh = now
            with contextlib.suppress(ValueError):  # not there, or too short to say anything
                found = diagnose.compute(diagnose.prepare(settings, frozenset()), Progress(True))
                if settings.run_dir is not None:
                    _write(Path(settings.run_dir, PAGE), found)
                yield found
        over = settings.seconds is not None and now - start >= settings.seconds
        if over or (settings.idle is not None and now - fresh >= settings.idle):
            return
        time.sleep(settings.every)


def _write(page: Path, found: Document) -> None:
    """The page of the one log; or the table of several, and beside it the pages that it links."""
    pages = list(found.pages.values())
    shown = {page.name: pages[0]} if len(pages) == 1 else {f"{name}.html": one for name, one in found.pages.items()}
    with stopped_by_disk(page):
        page.parent.mkdir(parents=True, exist_ok=True)
        for name, one in ({page.name: found} | shown).items():
            durable.write_file(page.with_name(name), as_html(one).encode())


def _mark(path: Path) -> object:
    """Sizes and times of what is read; they differ once it has grown."""
    names = [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]
    return [(str(one), os.stat(one).st_size, os.stat(one).st_mtime_ns) for one in names if one.exists()]
