"""What in a run folder this program wrote, and whether it is still what was written.

`written.json` lists names before files of these names appear, so that a killed run leaves no file of unknown origin;
in a finished run the manifest has the list, with sizes and SHA-256, and `written.json` goes. Only names in the list are
ever removed.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bandit_lab.app.chunks import durable
from bandit_lab.app.chunks.store import FOLDER as CHUNKS, ChunkStore, read_json

MANIFEST, CONFIG, SUMMARY, RESULTS = "manifest.json", "config.yaml", "summary.json", "results.zarr"
WRITTEN, STAGED = "written.json", "staged"
FILES = "files"  # the list's key in the manifest and in `written.json`
REPORT, INDEX = "report", "index"
_LARGEST_CONFIG = 2**20  # bytes
_FIXED = (CONFIG, SUMMARY, RESULTS, MANIFEST)
_EXPORTED = re.compile(r"(grid|sampled)\.(csv|parquet)")

Entry = Mapping[str, Any]
"""`bytes` and `sha256` of a file; of a folder, those of everything in it."""


@dataclass(frozen=True)
class FolderContents:
    """Content of a folder. ours: whether it is a run of this program, or nothing yet. manifest: of a finished run.

    damaged: whether `manifest.json` is there and cannot be read. files: what was written -> its entry, where known.
    """

    ours: bool
    empty: bool
    manifest: dict[str, Any] | None
    damaged: bool
    files: dict[str, Entry | None]


def inspect_folder(folder: Path) -> FolderContents:
    """Whose folder it is, its manifest, and the files that it lists. Only reads."""
    names = {name for name in _listed(folder) if not _is_leftover(name)}
    manifest, broken = read_json(folder / MANIFEST), False
    if manifest is None and (folder / MANIFEST).is_file():
        broken = _unreadable(folder / MANIFEST)
    manifest = manifest if _is_manifest(manifest or {}) else None
    begun = read_json(folder / WRITTEN)
    begun = begun if begun is not None and isinstance(begun.get(FILES), dict) and "bandit_lab" in begun else None
    files: dict[str, Entry | None] = {}
    if begun is not None:
        files |= {WRITTEN: None} | begun[FILES]
    if manifest is not None:
        files |= manifest[FILES] | {MANIFEST: None}
    empty = not names - {CHUNKS} and not ChunkStore(folder).foreign()
    ours = bool(files) or empty or (broken and {"run_dir", "overwrite"} <= set(settings_in(folder) or ()))
    files = {name: entry for name, entry in files.items() if _is_inside(name)}
    return FolderContents(ours, empty, manifest, broken, files)


def _is_manifest(content: dict[str, Any]) -> bool:
    files = content.get(FILES)
    return isinstance(files, dict) and CONFIG in files


def entry_of(data: bytes) -> Entry:
    """The entry of a file."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def entry_at(path: Path) -> Entry | None:
    """The entry of what is at `path` now, or None if there is nothing that can be read."""
    try:
        if not path.is_dir():
            return _entry_of_file(path)
        size, total = 0, hashlib.sha256()
        for name in sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()):
            one = _entry_of_file(path / name)
            size += one["bytes"]
            total.update(f"{name}\0{one['sha256']}\n".encode())
        return {"bytes": size, "sha256": total.hexdigest()}
    except OSError:
        return None


def changed_files(folder: Path, files: Mapping[str, Entry | None]) -> dict[str, str]:
    """Files whose size or SHA-256 differs from the list, by name, with the difference. Reads every file."""
    found = {}
    for name, entry in files.items():
        path = folder / name
        if entry is None:
            continue
        if not path.exists():
            found[name] = "is missing"
        elif (now := entry_at(path)) != dict(entry):
            found[name] = "is empty" if now and not now["bytes"] else "is not what was written"
    return found


def in_words(found: Mapping[str, str]) -> str:
    """One line: the first three."""
    parts = [f"{name} {why}" for name, why in list(found.items())[:3]]
    return ", ".join(parts) + (f", and {len(found) - 3} more" if len(found) > 3 else "")


def remove(folder: Path, name: str) -> None:
    """Remove one name of the list. A link is removed, never what it leads to; nothing is removed behind a link."""
    path = folder / name
    if not _is_inside(name) or any(parent.is_symlink() for parent in _between(folder, path)):
        return
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    elif path.is_dir() and name == RESULTS:
        shutil.rmtree(path, ignore_errors=True)
    if path.parent != folder and path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def remove_leftovers(folder: Path, files: Mapping[str, Any]) -> None:
    """Remove what killed processes were building in `folder`."""
    durable.remove_leftovers(folder, lambda name: name in files or _is_known(name))


def write_list(folder: Path, files: Mapping[str, Entry | None]) -> None:
    """Write `written.json`."""
    from bandit_lab._version import __version__

    content = {"bandit_lab": __version__, FILES: dict(files)}
    durable.write_file(folder / WRITTEN, json.dumps(content, indent=0).encode())


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name)
    return bool(parts.parts) and not parts.is_absolute() and ".." not in parts.parts


def _between(folder: Path, path: Path) -> Iterator[Path]:
    for parent in path.parents:
        if parent == folder:
            return
        yield parent


def _entry_of_file(path: Path) -> Entry:
    with path.open("rb") as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _is_known(name: str) -> bool:
    return name in (*_FIXED, WRITTEN, STAGED) or bool(_EXPORTED.fullmatch(name))


def _is_leftover(name: str) -> bool:
    of = durable.left_over(name)
    return of is not None and _is_known(of)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _unreadable(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return True
    except OSError:
        return False
    return False


def settings_in(folder: Path) -> dict[str, Any] | None:
    """Settings in `config.yaml`, or None where it is no mapping that can be read."""
    import yaml

    path = folder / CONFIG
    try:
        content = yaml.safe_load(path.read_bytes()) if path.stat().st_size <= _LARGEST_CONFIG else None
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else None
