"""The run folder: strict JSON, a resolved YAML, a labelled array store; the manifest is written last.

A folder is a finished run if and only if it holds `manifest.json`. Each file is written beside its place, forced to the
disk and then moved there. A killed run or a power cut leaves whole files or none, and never a manifest. What is
written, and what may be removed again, is in `folder.written`. Commands whose work is long keep what they have finished
in `chunks/` until then (`app.chunks`).
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandit_lab import _checks
from bandit_lab.app.chunks import ChunkStore, durable, hash_of
from bandit_lab.app.chunks.lock import FolderInUse, holder
from bandit_lab.app.chunks.store import FOLDER as CHUNKS, SETTINGS, is_ours
from bandit_lab.app.document.as_json import strict_json
from bandit_lab.app.folder import written
from bandit_lab.app.folder.written import CONFIG, MANIFEST, REPORT, RESULTS, STAGED, SUMMARY, WRITTEN, FolderContents
from bandit_lab.app.terminal.errors import Stopped

if TYPE_CHECKING:
    import xarray

    from bandit_lab.app.folder.results import Stream

NEW, BEGUN, FINISHED = "new", "begun", "finished"


def check_folder(path: Path, overwrite: bool, continues: bool = False) -> None:
    """Raise ValueError if a run could not be written to `path`, or would replace something. Writes nothing.

    continues: the command goes on with unfinished runs and judges finished ones itself.
    """
    nearest = nearest_existing(path)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    _checks.require(writable, "run_dir", "a folder that can be written", str(path))
    if not path.exists():
        return
    _check_links(path)
    found = written.inspect_folder(path)
    finished = found.manifest is not None and not overwrite and not continues
    _checks.require(not finished, "run_dir", "a new folder, or overwrite=true", f"a finished run in {path}")
    taken = holder(path / CHUNKS)
    _checks.require(taken is None, "run_dir", "a folder in which no other process works", FolderInUse.text(taken))
    begun = (path / CHUNKS / SETTINGS).exists() and found.manifest is None
    _checks.require(
        not (begun and found.ours) or overwrite or continues,
        "run_dir",
        "a new folder, or overwrite=true",
        f"an unfinished run in {path}",
    )
    _checks.require(found.ours, "run_dir", "a new folder, an empty one or one of an earlier run", str(path))
    if found.damaged and not overwrite:
        check_manifest(path, found)
    _check_foreign(path, found, overwrite)


def check_reads(folder: Path, settings: Any) -> None:
    """Raise ValueError where a command would read what is in the run folder that it writes."""
    single = [getattr(settings, name, None) for name in ("eval_path", "logs_index", "config", "log")]
    own = Path(os.path.realpath(folder))
    for one in filter(None, [*getattr(settings, "paths", ()), *getattr(settings, "beside", ()), *single]):
        real = Path(os.path.realpath(one))
        _checks.require(own not in (real, *real.parents), "run_dir", f"a folder that does not hold {one}", str(folder))


def check_manifest(path: Path, found: FolderContents) -> None:
    """Raise ValueError where there is a manifest that cannot be read: what the run was is then not known."""
    expected = f"a {MANIFEST} that can be read, or overwrite=true, which computes the run anew"
    _checks.require(not found.damaged, "run_dir", expected, f"a damaged one in {path}")


def _check_links(path: Path) -> None:
    """Raise ValueError where a folder of the run would be somebody else's: a link, or no folder."""
    for name in (CHUNKS, REPORT):
        place = path / name
        ours = not place.is_symlink() and (place.is_dir() or not place.exists())
        _checks.require(
            ours, "run_dir", f"a folder in which {name} is a folder or not there", f"a link or file {place}"
        )


def _check_foreign(path: Path, found: FolderContents, overwrite: bool) -> None:
    """Raise ValueError where a name that the run needs is taken by what this program did not write."""
    taken = [f"{CHUNKS}/{name}" for name in ChunkStore(path).foreign() if is_ours(name)]
    names = (RESULTS,) if overwrite else (RESULTS, SUMMARY, WRITTEN)
    taken += [name for name in names if os.path.lexists(path / name) and name not in found.files]
    expected = "a folder in which a run's names are free, or its own"
    _checks.require(not taken, "run_dir", expected, f"{', '.join(taken)} in {path}, of somebody else")


def nearest_existing(path: Path) -> Path:
    """`path` or the nearest folder above it that exists. Raises ValueError where the system takes no such path."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return next(p for p in path.absolute().parents if os.path.exists(p))
    except OSError as error:  # too long, a loop of links
        _checks.require(False, "run_dir", f"a path that can exist ({error.strerror})", str(path))
    return path


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
    store, found = ChunkStore(folder), written.inspect_folder(folder)
    check_manifest(folder, found)
    before, manifest = store.settings(), found.manifest
    if manifest is not None:
        same = manifest.get("settings_hash") == hash_of(settings)
        edited = _edited(manifest, settings)
        another = f"source of the plug-in {', '.join(edited)}" if edited else "configuration"
        got = f"a finished run of another {another} in {folder}"
        _checks.require(same, "run_dir", "a new folder, or overwrite=true", got)
        return BEGUN if manifest["chunks"]["failed"] else FINISHED
    if SETTINGS in store.damaged():
        place = store.folder / SETTINGS
        advice = "one that can be read; remove it to go on with the finished chunks that fit, or overwrite=true"
        _checks.require(False, "run_dir", advice, f"a damaged {place}")
    if before is None:
        return BEGUN if store.records() else NEW
    text = f"one begun with another configuration (differs in {', '.join(differing(before, settings))})"
    if edited := _edited(before, settings):
        text = f"one begun with another source of the plug-in {', '.join(edited)}"
    _checks.require(before == settings, "run_dir", "the configuration that it was begun with, or overwrite=true", text)
    return BEGUN


def differing(one: object, other: object, prefix: str = "") -> list[str]:
    """Dotted names of the entries in which two nested mappings differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix.rstrip(".") or "everything"]
    names = sorted({*one, *other})
    return [found for name in names for found in differing(one.get(name), other.get(name), f"{prefix}{name}.")]


def _edited(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Plug-ins that both runs used and whose source differs."""
    old, new = before.get("plugin_source") or {}, now.get("plugin_source") or {}
    return [name for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]


class RunFolder:
    """One run's folder. Nothing is created before `open`; nothing is written that is not in the list before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: dict[str, written.Entry | None] = {}

    def open(self, config: str, keep_chunks: bool = False) -> None:
        """Create the folder with its resolved configuration; an older run there stops being a finished one."""
        self.path.mkdir(parents=True, exist_ok=True)
        before = written.inspect_folder(self.path).files
        fixed: dict[str, written.Entry | None] = dict.fromkeys((CONFIG, SUMMARY, RESULTS))
        written.write_list(self.path, dict.fromkeys(before) | fixed)
        written.remove_leftovers(self.path, before)
        for name in (MANIFEST, *before):  # what is left of a finished run must never look like one
            if name in before and name not in (CONFIG, WRITTEN):
                written.remove(self.path, name)
        if not keep_chunks:
            ChunkStore(self.path).remove()
        self._files = fixed
        if set(before) - set(fixed) - {MANIFEST, WRITTEN}:
            written.write_list(self.path, fixed)
        self._write(CONFIG, config)

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
        self.note_results()

    def note_results(self) -> None:
        """Take what is in `results.zarr` into the list."""
        self._files[RESULTS] = written.entry_at(self.path / RESULTS)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files of other names."""
        with self.staged() as place:
            for name, data in files.items():
                (place / name).write_bytes(data)

    @contextlib.contextmanager
    def staged(self) -> Iterator[Path]:
        """A folder for pictures and pages: what is in it at the end is moved into the run folder, once on the disk."""
        place = durable.partial_name(self.path / STAGED)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
            self._take(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _take(self, place: Path) -> None:
        names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
        taken = [name for name in names if name not in self._files and os.path.lexists(self.path / name)]
        if taken:  # put there while the run worked, or beside an older one
            raise Stopped(f"{self.path}: {', '.join(taken)}: not written by this program, and a run needs the name")
        entries = {name: written.entry_at(place / name) for name in names}
        if set(names) - set(self._files):
            written.write_list(self.path, self._files | dict.fromkeys(names))
        for parent in {(self.path / name).parent for name in names}:
            parent.mkdir(exist_ok=True)
        durable.move_files([(place / name, self.path / name) for name in names])
        self._files |= entries

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Write `manifest.json`, with the list of all files: from now on the run is finished."""
        files = {name: entry for name, entry in self._files.items() if entry is not None}
        durable.write_file(self.path / MANIFEST, strict_json(manifest | {written.FILES: files}).encode())
        (self.path / WRITTEN).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove the list that a kill left beside the manifest of a finished run."""
        if WRITTEN in written.inspect_folder(self.path).files:
            (self.path / WRITTEN).unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        durable.write_file(self.path / name, text.encode())
        self._files[name] = written.entry_of(text.encode())
