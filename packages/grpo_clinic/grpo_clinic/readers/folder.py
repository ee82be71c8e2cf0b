"""A folder: a trainer's output folder, a wandb run folder, or simply a folder of logs."""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from grpo_clinic._text import visible
from grpo_clinic.readers import limits, registry

_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})$")
_TEXT = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".log", ".txt", ".out", ".ipynb")
_DEPTH = 4


_LeftOut = list[tuple[Path, str]]
"""(path, one line why)."""


def logs(folder: Path) -> tuple[list[Path], _LeftOut]:
    """(files to read in a folder, what was left out); of a file that file.

    A Hugging Face output folder gives the `trainer_state.json` of its own or of the largest checkpoint, a wandb run
    its console text. Any other folder gives all files that may be logs, sub-folders included, the first ones by name if
    there are too many. Raises ValueError if there is none.
    """
    if not os.path.isdir(folder):
        return [folder], []
    left_out: _LeftOut = []
    paths = _inside(folder, 0, left_out)
    files = list(islice(paths, limits.MAX_FILES))
    if not files:
        kinds = f"{', '.join(_TEXT)}, tfevents"
        why = f"; {visible(left_out[0][0].name)}: {left_out[0][1]}" if left_out else ""
        raise ValueError(f"expected a folder with logs ({kinds}), got none in {visible(str(folder))}{why}")
    if more := sum(1 for _ in paths):
        count = f"expected at most {limits.MAX_FILES} files in a folder, got {len(files) + more}: those behind "
        left_out.append((folder, f"{count}{visible(files[-1].name)} were left out"))
    return files, left_out


def _one_run(folder: Path, names: list[str]) -> Path | None:
    """The log of a folder that is one run, if it is."""
    state = "trainer_state.json"
    if os.path.isfile(folder / state):
        return folder / state
    numbered = [(int(match[1]), name) for name in names if (match := _CHECKPOINT.fullmatch(name))]
    for _, name in sorted(numbered, reverse=True):
        if os.path.isfile(folder / name / state):
            return folder / name / state
    for name in ("files/output.log", "output.log"):
        wandb = os.path.isfile(folder / "wandb-summary.json") or os.path.isdir(folder / "files")
        if wandb and os.path.isfile(folder / name):
            return folder / name
    return None


def _inside(folder: Path, depth: int, left_out: _LeftOut) -> Iterator[Path]:
    """Files that may be logs, in the order of their names; a sub-folder that cannot be read is left out and said."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        why = f"expected a readable folder, got {error.strerror}"
        if not depth:
            raise ValueError(why) from None
        left_out.append((folder, why))
        return
    if (one := _one_run(folder, names)) is not None:
        yield one
        return
    theirs = {end for reader in registry.READERS.values() for end in getattr(reader, "suffixes", ())}
    for name in names:
        child = folder / name
        if os.path.isdir(child):  # False for what cannot be looked at; the reader then says why
            if depth < _DEPTH and not name.startswith(".") and not child.is_symlink():
                yield from _inside(child, depth + 1, left_out)
        elif os.path.splitext(name)[1].lower() in {*_TEXT, *theirs} or "tfevents" in name:
            yield child
