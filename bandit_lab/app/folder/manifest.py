"""Where a run comes from: versions, commit, device, precision, seed, times, and the hash of its configuration."""

import platform
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from bandit_lab.app.chunks import hash_of
from bandit_lab.app.result import plain
from bandit_lab.app.version import __version__

PACKAGES = ("jax", "jaxlib", "optax", "numpy", "scipy", "hydra-core", "xarray", "zarr", "matplotlib")
NOT_HASHED = ("run_dir", "overwrite", "quiet", "pictures", "memory_limit", "chunk", "engine")


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


def manifest(
    command: str, settings: dict[str, Any], width: dict[str, int], seconds: dict[str, float]
) -> dict[str, Any]:
    """Content of `manifest.json`. width: of blocks that results depend on. seconds: wall, compile, run."""
    import jax

    device = jax.devices()[0]
    kept = {key: value for key, value in settings.items() if key not in NOT_HASHED}
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
        "config_hash": hash_of(plain({"settings": kept, "width": width})),
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
