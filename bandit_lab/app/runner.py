"""One job of a command: check everything, then work, then close the run folder. Nothing is printed but progress."""

import errno
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bandit_lab.app import plugins
from bandit_lab.app.commands import COMMANDS
from bandit_lab.app.folder import store
from bandit_lab.app.folder.results import opened
from bandit_lab.app.folder.store import CompileClock
from bandit_lab.app.progress import Progress, Stopped, bad_input
from bandit_lab.app.result import Result

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)  # the disk's failures, wherever they happen
AGAIN = ("finished already: nothing is left to do (overwrite=true computes it anew)",)


def default_folder(command: str) -> Path:
    """`outputs/<command>/<date>_<time>`, with a number behind it if that exists."""
    base = Path("outputs") / command / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    candidates = [base, *(base.with_name(f"{base.name}_{i}") for i in range(2, 1000))]
    return next(path for path in candidates if not path.exists())


def _module(command: str) -> Any:
    """Its module (imports JAX)."""
    return importlib.import_module(f"bandit_lab.lab.{command}.command")


def done(command: str, settings: Any, explicit: frozenset[str], folder: Path | None, progress: Progress) -> Result:
    """What a command gives for its settings: `python -m bandit_lab predict` and `bandit_lab.predict` are both this.

    Everything is checked first. With a folder it is written there. explicit: the keys that were given.

    Raises:
      BadInput: nothing is written. Stopped: the folder cannot be written, or the engine is gone.
    """
    about, module = COMMANDS[command], _module(command)
    try:
        with bad_input():
            plugins.load(settings.plugins)
            if folder is not None and not about.reads:
                store.check_folder(folder, bool(settings.overwrite), about.chunked)
            plan = module.prepare(settings, explicit)
            if folder is not None and (about.chunked or about.reads):
                module.check_folder(plan, folder)
            if folder is not None:
                store.create_folder(folder)
        if folder is None:
            return module.compute(plan, progress)
        if not about.writes:
            return compute_into(command, module.compute, plan, store.RunFolder(folder), progress)
        return module.execute(plan, store.RunFolder(folder), progress) or replace(loaded(command, folder), shown=AGAIN)
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise Stopped(f"{error.filename or folder}: cannot be written ({error.strerror})") from error


def compute_into(
    command: str, compute: Callable[[Any, Progress], Result], plan: Any, folder: store.RunFolder, progress: Progress
) -> Result:
    """Do a command that is a function from a plan (`settings`, `precision`) to a result, and write its run folder.

    The manifest is written last.
    """
    start = time.perf_counter()
    settings = asdict(plan.settings)
    folder.open(settings)
    with CompileClock() as clock:
        result = compute(plan, progress)
    with progress.stage("writing"):
        if result.data is not None:
            folder.write_results(result.data)
        folder.write_summary(result.to_dict())
    if result.figures:
        with progress.stage("pictures"):
            folder.write_files({f"{figure.name}.png": figure.png() for figure in result.figures})
    seconds = clock.split(time.perf_counter() - start)
    folder.finish(command, settings | {"precision": plan.precision}, seconds, progress.seconds)
    return result


def loaded(command: str, folder: Path) -> Result:
    """A finished run folder, nothing computed: content of its summary, its data, its pictures."""
    summary, data, figures = json.loads((folder / store.SUMMARY).read_bytes()), None, ()
    if (folder / store.RESULTS).exists():
        with opened(folder / store.RESULTS) as stored:
            data = stored.load()
        figures = _module(command).figures_of(data) if COMMANDS[command].chunked else ()
    return Result(command, summary, data=data, figures=figures)
