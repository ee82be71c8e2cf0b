"""Which folder holds a run, or the runs of a `-m`. Only reads."""

import os
from pathlib import Path

from bandit_lab.app.chunks import ChunkStore
from bandit_lab.app.folder import written
from bandit_lab.app.terminal.multirun import MultirunJob, jobs_in

_FOLDER = "the folder of a run, which is the last line that a command prints (its run_dir, or outputs/...)"


def runs_in(named: str | None) -> tuple[Path, list[MultirunJob]]:
    """(folder, runs of a `-m` in it). Raises ValueError unless there is a run in it, finished or not, or several."""
    if not named:
        raise ValueError(f"folder: expected {_FOLDER}, got nothing")
    folder = Path(named)
    known, jobs = _look(folder)
    if not (known or jobs):
        kinds = {"in which no run was written": os.path.isdir, "a file": os.path.isfile}
        there = next((words for words, holds in kinds.items() if holds(named)), "nothing there")
        raise ValueError(f"folder: expected {_FOLDER}, got {str(folder)!r} ({there})")
    return folder, jobs


def holds_run(path: str) -> bool:
    """Whether a path is the folder of a run, or of several."""
    return any(_look(Path(path)))


def _look(folder: Path) -> tuple[bool, list[MultirunJob]]:
    """(whether it is a run's folder, the runs of a `-m` in it)."""
    try:
        found = written.inspect_folder(folder)
        if (found.ours and not found.empty) or ChunkStore(folder).settings() is not None or found.damaged:
            return True, []
        return False, jobs_in(folder)
    except (OSError, ValueError):  # a path that cannot be: too long, a loop of links, a zero byte
        return False, []
