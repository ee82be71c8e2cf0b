"""A folder: a trainer's output folder, a wandb run folder, an MLflow run, or simply a folder of logs."""

import re
from collections.abc import Iterator
from pathlib import Path

from bandit_lab.curves import limits

_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})$")
_TEXT = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".log", ".txt", ".out")
_DEPTH = 4


def logs(folder: Path) -> list[Path]:
    """The files to read in a folder, best choice first where the folder's form tells one.

    A Hugging Face output folder gives the `trainer_state.json` of its own or of the largest checkpoint, a wandb run
    its history or console text; any other folder gives all files that may be logs, sub-folders included. Raises
    ValueError if there is none.
    """
    found = _one_run(folder)
    if not found:
        found = sorted(_walk(folder, 0))
    if not found:
        raise ValueError(f"expected a folder with logs ({', '.join(_TEXT)}, tfevents), got none in {folder}")
    return found[: limits.MAX_FILES]


def _one_run(folder: Path) -> list[Path]:
    state = folder / "trainer_state.json"
    if state.is_file():
        return [state]
    numbered = []
    for child in _children(folder):
        match = _CHECKPOINT.fullmatch(child.name)
        if match and (child / "trainer_state.json").is_file():
            numbered.append((int(match[1]), child / "trainer_state.json"))
    if numbered:
        return [max(numbered)[1]]
    for name in ("files/output.log", "output.log"):
        if (folder / name).is_file() and ((folder / "wandb-summary.json").is_file() or (folder / "files").is_dir()):
            return [folder / name]
    return []


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise ValueError(f"expected a readable folder, got {error.strerror}") from None


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    for child in _children(folder):
        if child.is_symlink() and child.is_dir():
            continue
        if child.is_dir():
            if depth < _DEPTH and not child.name.startswith("."):
                yield from (_one_run(child) or _walk(child, depth + 1))
        elif child.suffix.lower() in _TEXT or "tfevents" in child.name:
            yield child
