"""One job of a command: check everything, then work, then close the run folder."""

import errno
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from bandit_lab.app import plugins
from bandit_lab.app.commands import COMMANDS
from bandit_lab.app.folder import store
from bandit_lab.app.folder.results import opened
from bandit_lab.app.folder.store import CompileClock
from bandit_lab.app.progress import Progress, Stopped, bad_input, say
from bandit_lab.app.result import Result

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)  # the disk's failures, wherever they happen


def default_folder(command: str) -> Path:
    """`outputs/<command>/<date>_<time>`, with a number behind it if that exists."""
    base = Path("outputs") / command / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    candidates = [base, *(base.with_name(f"{base.name}_{i}") for i in range(2, 1000))]
    return next(path for path in candidates if not path.exists())


def _module(command: str) -> Any:
    """Its module (imports JAX)."""
    return importlib.import_module(f"bandit_lab.lab.{command}.command")


def checked(command: str, settings: Any, explicit: frozenset[str], folder: Path | None) -> Any:
    """The plan of a job after every check. Raises ValueError; writes nothing."""
    module = _module(command)
    if COMMANDS[command].reads or folder is None:
        return module.prepare(settings, explicit)
    store.check_folder(folder, bool(settings.overwrite), COMMANDS[command].chunked)
    plan = module.prepare(settings, explicit)
    if COMMANDS[command].chunked:
        module.check_folder(plan, folder)
    return plan


def run(command: str, settings: Any, explicit: frozenset[str], folder: Path | None) -> None:
    """Do one job in a folder, or without; prints its table, and as the last line the folder or the one file made."""
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        with bad_input():
            plugins.load(settings.plugins)
            plan = checked(command, settings, explicit, folder)
            if folder is not None and not COMMANDS[command].reads:
                store.create_folder(folder)
        outcome = perform(command, plan, folder, Progress(settings.quiet))
        if not COMMANDS[command].writes:
            outcome.show()
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise Stopped(f"{error.filename or folder}: cannot be written ({error.strerror})") from error
    if where := outcome if isinstance(outcome, Path) else folder:
        say(str(where))
    if isinstance(outcome, Result) and outcome.incomplete:
        raise Stopped(outcome.incomplete, ended=True)


def perform(command: str, plan: Any, folder: Path | None, progress: Progress) -> Any:
    """Do a checked job: by the `execute` of its module, or by `compute` with what every command does around it.

    Returns a result, or the file that a command makes instead of a run folder.
    """
    module = _module(command)
    if folder is None:
        return module.compute(plan, progress)
    if COMMANDS[command].writes:
        return module.execute(plan, store.RunFolder(folder), progress)
    return compute_into(command, module.compute, plan, store.RunFolder(folder), progress)


def compute_into(
    command: str, compute: Callable[[Any, Progress], Result], plan: Any, folder: store.RunFolder, progress: Progress
) -> Result:
    """Do a command that is a function from a plan (`settings`, `precision`) to a result, and write its run folder.

    The manifest is written last; what is printed is printed after it, by the caller.
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
