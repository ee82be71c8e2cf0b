"""The run folder: strict JSON, a resolved YAML, a labelled array store; the manifest is written last.

A folder is a finished run if and only if it holds `manifest.json`. Each file is written beside its place and then moved
there, so that a killed run leaves whole files or none, and never a manifest. Commands whose work is long keep what they
have finished in `chunks/` until then (`study.chunks`).
"""

import json
import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import _checks
from bandit_lab._text import json_visible
from bandit_lab.study.chunks import durable
from bandit_lab.study.chunks.lock import Held, holder
from bandit_lab.study.chunks.store import FOLDER as CHUNKS
from bandit_lab.study.chunks.store import SETTINGS

if TYPE_CHECKING:
    import xarray

    from bandit_lab.study.folder.results import Stream

MANIFEST, CONFIG, SUMMARY, RESULTS = "manifest.json", "config.yaml", "summary.json", "results.zarr"


def check_folder(path: Path, overwrite: bool, continues: bool = False) -> None:
    """Raise ValueError if a run could not be written to `path`, or would replace something. Writes nothing.

    continues: the command goes on with unfinished runs and judges finished ones itself.
    """
    nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    _checks.require(writable, "run_dir", "a folder that can be written", str(path))
    if not path.exists():
        return
    finished = (path / MANIFEST).exists()
    _checks.require(
        not finished or overwrite or continues,
        "run_dir",
        "a new folder, or overwrite=true",
        f"a finished run in {path}",
    )
    taken = holder(path / CHUNKS)
    _checks.require(taken is None, "run_dir", "a folder in which no other process works", Held.text(taken))
    begun = (path / CHUNKS / SETTINGS).exists()
    _checks.require(
        not begun or overwrite or continues,
        "run_dir",
        "a new folder, or overwrite=true",
        f"an unfinished run in {path}",
    )
    names = {entry.name for entry in path.iterdir()}
    foreign = not (CONFIG in names or all(name == CHUNKS or name.endswith(durable.PARTIAL) for name in names))
    _checks.require(not foreign, "run_dir", "a new folder, an empty one or one of an earlier run", str(path))


def create_folder(path: Path) -> None:
    """Make the folder. Raises ValueError where the system refuses in spite of the permissions (/proc, a full disk)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _checks.require(False, "run_dir", f"a folder that can be created ({error.strerror})", str(path))


class RunFolder:
    """One run's folder. Nothing is created before `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, config: str, keep_chunks: bool = False) -> None:
        """Create the folder with its resolved configuration; an older run there stops being a finished one."""
        self.path.mkdir(parents=True, exist_ok=True)
        durable.remove_leftovers(self.path)
        (self.path / MANIFEST).unlink(missing_ok=True)
        (self.path / SUMMARY).unlink(missing_ok=True)
        for picture in self.path.glob("*.png"):
            picture.unlink()
        shutil.rmtree(self.path / RESULTS, ignore_errors=True)
        if not keep_chunks:
            shutil.rmtree(self.path / CHUNKS, ignore_errors=True)
        self._write(CONFIG, config)

    def rewrite_config(self, config: str) -> None:
        """Replace the configuration by one in which the axes are resolved."""
        self._write(CONFIG, config)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write `summary.json`."""
        self._write(SUMMARY, strict_json(summary))

    def write_results(self, dataset: "xarray.Dataset", streams: "Sequence[Stream]" = ()) -> None:
        """Write `results.zarr`: what is in memory, and what is read slab by slab."""
        from bandit_lab.study.folder import results

        results.write(self.path / RESULTS, dataset, streams)

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Write `manifest.json`: from now on the run is finished."""
        self._write(MANIFEST, strict_json(manifest))

    def _write(self, name: str, text: str) -> None:
        durable.write_file(self.path / name, text.encode())


def strict_json(value: Any) -> str:
    """JSON without NaN or Infinity: they become null. Arrays become lists, codes their names.

    What UTF-8 cannot hold (a path's odd bytes) or a terminal would obey stands as an escape, which reads back the same.
    """
    return json_visible(json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)) + "\n"


def plain(value: Any) -> Any:
    """Nested plain Python values; every non-finite number is None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def with_reasons(values: dict[str, Any], reasons: dict[str, str]) -> dict[str, Any]:
    """`values` with `<key>_reason` beside every key that is null and has a reason."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        result[key] = plain(value)
        if result[key] is None and reasons.get(key):
            result[f"{key}_reason"] = reasons[key]
    return result
