"""The run folder: strict JSON, a resolved YAML, a labelled array store; the manifest is written last.

A folder is a finished run if and only if it holds `manifest.json`. Files and the array store are written beside their
places, forced to the disk and then moved there. A killed run or a power cut leaves whole files or none, and never a
manifest. Commands whose work is long keep what they have finished in `chunks/` until then (`app.chunks`).
"""

import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandit_lab import _checks
from bandit_lab.app.chunks import ChunkStore, check_free, durable, hash_of, holder, read_json
from bandit_lab.app.result import plain, strict_json
from bandit_lab.app.version import __version__

if TYPE_CHECKING:
    import xarray

    from bandit_lab.app.folder.results import Stream

MANIFEST, CONFIG, SUMMARY, RESULTS = "manifest.json", "config.yaml", "summary.json", "results.zarr"
FILES = "files"  # of the manifest: names of pictures, which an overwriting run removes
PACKAGES = ("jax", "jaxlib", "optax", "numpy", "scipy", "hydra-core", "xarray", "zarr", "matplotlib")
NOT_HASHED = ("run_dir", "overwrite", "quiet", "pictures", "memory_limit", "chunk", "engine")
NEW, BEGUN, FINISHED = "new", "begun", "finished"


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished run of this program, or None."""
    manifest = read_json(folder / MANIFEST)
    return manifest if manifest is not None and {"command", "bandit_lab"} <= set(manifest) else None


def settings_in(folder: Path) -> dict[str, Any]:
    """Settings in `config.yaml`; none where it is not one of a run."""
    import yaml

    try:
        content = yaml.safe_load((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    ours = isinstance(content, dict) and {"run_dir", "overwrite"} <= set(content)
    return {str(key): value for key, value in content.items()} if ours else {}


def check_folder(path: Path, overwrite: bool, continues: bool = False) -> None:
    """Raise ValueError if a run could not be written to `path`, or would replace something. Writes nothing.

    continues: the command goes on with unfinished runs and judges finished ones itself.
    """
    try:
        names = os.listdir(path) if path.exists() else []
        above = next(one for one in (path, *path.absolute().parents) if one.exists())
        writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    except OSError:
        names, writable = [], False
    _checks.require(writable, "run_dir", "a folder that can be written", str(path))
    check_free(holder(path / "chunks"))
    finished = manifest_of(path) is not None
    begun = {"command", "settings"} <= set(ChunkStore(path).settings() or ())
    empty = all(one == "chunks" or one.endswith(".partial") for one in names)
    ours = finished or begun or empty or bool(settings_in(path))
    _checks.require(ours, "run_dir", "a new folder, an empty one or one of an earlier run", str(path))
    if not (overwrite or continues):
        kind = "a finished run" if finished else "an unfinished run"
        _checks.require(not (finished or begun), "run_dir", "a new folder, or overwrite=true", f"{kind} in {path}")
    if not overwrite:
        _check_manifest(path)


def _check_manifest(path: Path) -> None:
    """Raise ValueError where there is a manifest that cannot be read: what the run was is then not known."""
    readable = manifest_of(path) is not None or not (path / MANIFEST).exists()
    expected = f"a {MANIFEST} that can be read, or overwrite=true, which computes the run anew"
    _checks.require(readable, "run_dir", expected, f"a damaged one in {path}")


def create_folder(path: Path) -> None:
    """Make the folder. Raises ValueError where the system refuses in spite of the permissions (/proc, a full disk)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _checks.require(False, "run_dir", f"a folder that can be created ({error.strerror})", str(path))


def state_of(folder: Path, settings: dict[str, Any], overwrite: bool) -> str:
    """State of a run in the folder: `new`, `begun` (finished chunks can be used; some may have failed) or `finished`.

    Only reads. settings: everything that decides the results, as plain values.

    Raises:
      ValueError: the folder holds a run of another configuration, finished or not, and `overwrite` is false.
    """
    if overwrite:
        return NEW
    _check_manifest(folder)
    store, manifest = ChunkStore(folder), manifest_of(folder)
    if manifest is not None:
        same = manifest.get("settings_hash") == hash_of(settings)
        got = f"a finished run of another configuration in {folder}"
        _checks.require(same, "run_dir", "a new folder, or overwrite=true", got)
        return BEGUN if manifest["chunks"]["failed"] else FINISHED
    before = store.settings()
    if before is None and not store.records():
        return NEW
    text = f"one begun with another configuration (differs in {', '.join(_differing(before, settings))})"
    _checks.require(before == settings, "run_dir", "the configuration that it was begun with, or overwrite=true", text)
    return BEGUN


def _differing(one: object, other: object, prefix: str = "") -> list[str]:
    """Dotted names of the entries in which two nested mappings differ."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return [] if one == other else [prefix.rstrip(".") or "everything"]
    names = sorted({*one, *other})
    return [entry for name in names for entry in _differing(one.get(name), other.get(name), f"{prefix}{name}.")]


class RunFolder:
    """One run's folder. Nothing is created before `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: set[str] = set()

    def open(self, config: Mapping[str, Any], keep_chunks: bool = False) -> None:
        """Create the folder with its resolved configuration; an older run there stops being a finished one."""
        self.path.mkdir(parents=True, exist_ok=True)
        durable.remove_leftovers(self.path)
        before = manifest_of(self.path) or {}
        for name in (MANIFEST, SUMMARY, *map(str, before.get(FILES, ()))):  # the manifest first: no run looks finished
            if Path(name).name == name:
                (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / RESULTS, ignore_errors=True)
        if not keep_chunks:
            ChunkStore(self.path).remove()
        self.write_config(config)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write `config.yaml`: settings that Hydra reads again."""
        from omegaconf import OmegaConf

        durable.write_file(self.path / CONFIG, OmegaConf.to_yaml(OmegaConf.create(plain(config))).encode())

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write `summary.json`."""
        durable.write_file(self.path / SUMMARY, strict_json(summary).encode())

    def write_results(self, dataset: "xarray.Dataset", streams: "Sequence[Stream]" = ()) -> None:
        """Write `results.zarr`: what is in memory, and what is read slab by slab."""
        from bandit_lab.app.folder import results

        results.write(self.path / RESULTS, dataset, streams)

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files of other names."""
        for name, data in files.items():
            durable.write_file(self.path / name, data)
        self._files |= set(files)

    def finish(
        self,
        command: str,
        settings: dict[str, Any],
        seconds: dict[str, float],
        stages: Mapping[str, float],
        width: Mapping[str, int] | None = None,
        **more: Any,
    ) -> None:
        """Write the manifest. seconds: wall, compile, run. width: of blocks that results depend on."""
        about = _manifest(command, settings, dict(width or {}), seconds)
        rounded = {name: round(value, 3) for name, value in stages.items()}
        self.write_manifest(about | {"stage_seconds": rounded} | more)

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Write `manifest.json`: from now on the run is finished."""
        durable.write_file(self.path / MANIFEST, strict_json(manifest | {FILES: sorted(self._files)}).encode())


def _commit() -> dict[str, Any]:
    """Commit of the checkout that the package runs from, and whether it has changes; nulls where there is none."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    git = ["git", "-C", str(root)]
    try:
        commit, changes = (
            subprocess.run([*git, *what], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
            for what in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return {"git_commit": None, "git_dirty": None}
    return {"git_commit": commit, "git_dirty": bool(changes)}


def peak_memory_bytes() -> int:
    """Largest resident memory of this process so far, bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def _manifest(
    command: str, settings: dict[str, Any], width: dict[str, int], seconds: dict[str, float]
) -> dict[str, Any]:
    """Content of `manifest.json`, see `RunFolder.finish`."""
    import jax

    device = jax.devices()[0]
    hashed = {key: value for key, value in settings.items() if key not in NOT_HASHED}
    return {
        "command": command,
        "bandit_lab": __version__,
        **_commit(),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}},
        "device": {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()},
        "machine": {"system": platform.system(), "architecture": platform.machine()},
        "precision": settings.get("precision")
        or "float64 (mean field, boundaries, optimisers that divide), float32 (other sampled runs)",
        "seed": settings.get("seed"),
        "block_width": width,
        "config_hash": hash_of(plain({"settings": hashed, "width": width})),
        **{f"{name}_seconds": round(value, 3) for name, value in seconds.items()},
        "peak_memory_bytes": peak_memory_bytes(),
    }


_listening: list["CompileClock"] = []
_registered = False


class CompileClock:
    """Inside the `with` block, adds up the time of tracing, lowering and compiling. Concurrent compilations add."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.programs = 0

    def __enter__(self) -> "CompileClock":
        global _registered
        if not _registered:
            import jax.monitoring

            jax.monitoring.register_event_duration_secs_listener(_hear)
            _registered = True
        _listening.append(self)
        return self

    def split(self, wall: float) -> dict[str, float]:
        """Seconds for a manifest out of `wall`: programs that are compiled at the same time count up to that."""
        compiling = min(self.seconds, wall)
        return {"wall": wall, "compile": compiling, "run": wall - compiling}

    def __exit__(self, *error: object) -> None:
        _listening.remove(self)


def _hear(event: str, duration_secs: float, **_: str | int) -> None:
    if not event.startswith("/jax/core/compile/"):
        return
    for clock in _listening:
        clock.seconds += duration_secs
        clock.programs += event.endswith("backend_compile_duration")
