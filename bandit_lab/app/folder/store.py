"""The run folder: strict JSON, a resolved YAML, a labelled array store; the manifest is written last.

A folder is a finished run if and only if it holds `manifest.json`. JSON, YAML and the array store are written beside
their places, forced to the disk and then moved there. A killed run or a power cut leaves whole files or none, and never
a manifest. Commands whose work is long keep what they have finished in `chunks/` until then (`app.chunks`).
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandit_lab import _checks
from bandit_lab.app.chunks import ChunkStore, durable, hash_of
from bandit_lab.app.chunks.lock import FolderInUse, holder
from bandit_lab.app.chunks.store import FOLDER as CHUNKS, SETTINGS, read_json
from bandit_lab.app.result import plain, strict_json

if TYPE_CHECKING:
    import xarray

    from bandit_lab.app.folder.results import Stream

MANIFEST, CONFIG, SUMMARY, RESULTS = "manifest.json", "config.yaml", "summary.json", "results.zarr"
REPORT, INDEX = "report", "index"
FILES = "files"  # of the manifest: names of pictures and pages, which an overwriting run removes
NEW, BEGUN, FINISHED = "new", "begun", "finished"
_OURS, _BEGUN = {"run_dir", "overwrite"}, {"command", "settings"}  # keys of every configuration, of every store
_LARGEST_CONFIG = 2**20  # bytes


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished run of this program, or None."""
    found = read_json(folder / MANIFEST)
    return found if found is not None and {"command", "bandit_lab"} <= set(found) else None


def settings_in(folder: Path) -> dict[str, Any] | None:
    """Settings in `config.yaml`, or None where it is no mapping that can be read."""
    import yaml

    path = folder / CONFIG
    try:
        content = yaml.safe_load(path.read_bytes()) if path.stat().st_size <= _LARGEST_CONFIG else None
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else None


def check_folder(path: Path, overwrite: bool, continues: bool = False) -> None:
    """Raise ValueError if a run could not be written to `path`, or would replace something. Writes nothing.

    continues: the command goes on with unfinished runs and judges finished ones itself.
    """
    nearest = nearest_existing(path)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    _checks.require(writable, "run_dir", "a folder that can be written", str(path))
    if not path.exists():
        return
    taken = holder(path / CHUNKS)
    _checks.require(taken is None, "run_dir", "a folder in which no other process works", FolderInUse.text(taken))
    finished, begun = manifest_of(path) is not None, set(ChunkStore(path).settings() or ()) >= _BEGUN
    empty = {name for name in os.listdir(path) if durable.left_over(name) is None} <= {CHUNKS}
    ours = finished or begun or empty or set(settings_in(path) or ()) >= _OURS
    ours = ours and not (path / CHUNKS).is_symlink()
    _checks.require(ours, "run_dir", "a new folder, an empty one or one of an earlier run", str(path))
    if not (overwrite or continues):
        kind = "a finished run" if finished else "an unfinished run"
        _checks.require(not (finished or begun), "run_dir", "a new folder, or overwrite=true", f"{kind} in {path}")
    if not overwrite:
        check_manifest(path)


def check_manifest(path: Path) -> None:
    """Raise ValueError where there is a manifest that cannot be read: what the run was is then not known."""
    known = manifest_of(path) is not None or not (path / MANIFEST).exists()
    expected = f"a {MANIFEST} that can be read, or overwrite=true, which computes the run anew"
    _checks.require(known, "run_dir", expected, f"a damaged one in {path}")


def nearest_existing(path: Path) -> Path:
    """`path` or the nearest folder above it that exists. Raises ValueError where the system takes no such path."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return next(p for p in path.absolute().parents if os.path.exists(p))
    except OSError as error:  # too long, a loop of links
        _checks.require(False, "run_dir", f"a path that can exist ({error.strerror})", str(path))
    return path


def as_yaml(settings: Mapping[str, Any]) -> str:
    """Settings as YAML that Hydra reads again."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(plain(settings)))


def create_folder(path: Path) -> None:
    """Make the folder. Raises ValueError where the system refuses in spite of the permissions (/proc, a full disk)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _checks.require(False, "run_dir", f"a folder that can be created ({error.strerror})", str(path))


def state_of(folder: Path, settings: dict[str, Any], overwrite: bool) -> str:
    """How far a run in the folder is: `new`, `begun` (finished chunks can be used; some may have failed) or `finished`.

    Only reads. It says whether the folder may be worked in: by the configuration that it was begun with, or anew.

    settings: everything that decides the results, as plain values.

    Raises:
      ValueError: the folder holds a run of another configuration, finished or not, and `overwrite` is false.
    """
    if overwrite:
        return NEW
    check_manifest(folder)
    store, manifest = ChunkStore(folder), manifest_of(folder)
    if manifest is not None:
        same = manifest.get("settings_hash") == hash_of(settings)
        got = f"a finished run of another configuration in {folder}"
        _checks.require(same, "run_dir", "a new folder, or overwrite=true", got)
        return BEGUN if manifest["chunks"]["failed"] else FINISHED
    before = store.settings()
    if before is None:
        damaged = store.folder / SETTINGS
        advice = "one that can be read; remove it to go on with the finished chunks that fit, or overwrite=true"
        _checks.require(not damaged.exists(), "run_dir", advice, f"a damaged {damaged}")
        return BEGUN if store.records() else NEW
    text = f"one begun with another configuration (differs in {', '.join(differing(before, settings))})"
    _checks.require(before == settings, "run_dir", "the configuration that it was begun with, or overwrite=true", text)
    return BEGUN


def differing(one: object, other: object, prefix: str = "") -> list[str]:
    """Dotted names of the entries in which two nested mappings differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix.rstrip(".") or "everything"]
    names = sorted({*one, *other})
    return [found for name in names for found in differing(one.get(name), other.get(name), f"{prefix}{name}.")]


class RunFolder:
    """One run's folder. Nothing is created before `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: set[str] = set()

    def open(self, config: str, keep_chunks: bool = False) -> None:
        """Create the folder with its resolved configuration; an older run there stops being a finished one."""
        self.path.mkdir(parents=True, exist_ok=True)
        durable.remove_leftovers(self.path, (CONFIG, SUMMARY, RESULTS, MANIFEST).__contains__)
        before = manifest_of(self.path)
        (self.path / MANIFEST).unlink(missing_ok=True)  # what is left of a finished run must never look like one
        (self.path / SUMMARY).unlink(missing_ok=True)
        shutil.rmtree(self.path / RESULTS, ignore_errors=True)
        for name in (before or {}).get(FILES, ()):
            if Path(name).parts[:-1] in ((), (REPORT,)):
                (self.path / name).unlink(missing_ok=True)
        if not keep_chunks:
            ChunkStore(self.path).remove()
        self.rewrite_config(config)

    def rewrite_config(self, config: str) -> None:
        """Replace the configuration by one in which the axes are resolved."""
        self._write(CONFIG, config)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write `summary.json`."""
        self._write(SUMMARY, strict_json(summary))

    def write_results(self, dataset: "xarray.Dataset", streams: "Sequence[Stream]" = ()) -> None:
        """Write `results.zarr`: what is in memory, and what is read slab by slab."""
        from bandit_lab.app.folder import results

        results.write(self.path / RESULTS, dataset, streams)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files of other names, in the folder or in `report/`."""
        for name, data in files.items():
            (self.path / name).parent.mkdir(exist_ok=True)
            durable.write_file(self.path / name, data)
        self._files |= set(files)

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Write `manifest.json`: from now on the run is finished."""
        self._write(MANIFEST, strict_json(manifest | {FILES: sorted(self._files)}))

    def _write(self, name: str, text: str) -> None:
        durable.write_file(self.path / name, text.encode())
