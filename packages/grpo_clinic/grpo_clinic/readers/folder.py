"""A folder: a trainer's output folder, a wandb run folder, or simply a folder of logs."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grpo_clinic._text import visible
from grpo_clinic.readers import limits, registry

_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})$")
_TEXT = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".log", ".txt", ".out", ".ipynb")
_DEPTH = 4


@dataclass
class FolderFiles:
    """The `files` to read in a folder, and what was `left_out`: (path, one line why)."""

    files: list[Path]
    left_out: list[tuple[Path, str]] = field(default_factory=list)


def logs(folder: Path) -> FolderFiles:
    """The files to read in a folder, best choice first where its form tells one; of a file that file.

    A Hugging Face output folder gives the `trainer_state.json` of its own or of the largest checkpoint, a wandb run
    its console text. Any other folder gives all files that may be logs,
    sub-folders included, the first ones by name if there are too many. Raises ValueError if there is none.
    """
    if not os.path.isdir(folder):
        return FolderFiles([folder])
    names = _names(folder)
    one = _one_run(folder, names)
    if one is not None:
        return FolderFiles([one])
    found = FolderFiles([])
    files: list[Path] = []
    count = 0
    for file in _walk(folder, names, 0, found):
        count += 1
        if len(files) < limits.MAX_FILES:
            files.append(file)
    if not files:
        kinds = f"{', '.join(_TEXT)}, tfevents"
        why = f"; {visible(found.left_out[0][0].name)}: {found.left_out[0][1]}" if found.left_out else ""
        raise ValueError(f"expected a folder with logs ({kinds}), got none in {visible(str(folder))}{why}")
    if count > len(files):
        more = f"expected at most {limits.MAX_FILES} files in a folder, got {count}: those behind "
        found.left_out.append((folder, f"{more}{visible(files[-1].name)} were left out"))
    found.files = files
    return found


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


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise ValueError(f"expected a readable folder, got {error.strerror}") from None


def _walk(folder: Path, names: list[str], depth: int, found: FolderFiles) -> Iterator[Path]:
    """Files that may be logs, in the order of their names; a sub-folder that cannot be read is left out and said."""
    for name in names:
        child = folder / name
        if os.path.isdir(child):  # False for what cannot be looked at; the reader then says why
            if depth < _DEPTH and not name.startswith(".") and not child.is_symlink():
                yield from _inside(child, depth + 1, found)
        elif may_be_log(name):
            yield child


def may_be_log(name: str) -> bool:
    """Whether a file of this name in a folder of logs is read as one."""
    theirs = (end for reader in registry.READERS.values() for end in getattr(reader, "suffixes", ()))
    return os.path.splitext(name)[1].lower() in (*_TEXT, *theirs) or "tfevents" in name


def _inside(child: Path, depth: int, found: FolderFiles) -> Iterator[Path]:
    try:
        names = _names(child)
    except ValueError as error:
        found.left_out.append((child, str(error)))
        return
    one = _one_run(child, names)
    yield from [one] if one is not None else _walk(child, names, depth, found)
