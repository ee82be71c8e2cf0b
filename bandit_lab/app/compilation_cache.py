"""Compiled programs kept on disk between runs of the command line: a second start compiles almost nothing.

Programs are native code. XLA keys them by program, options and version, but where the processor differs it only logs
that loaded code "could lead to SIGILL" (openxla/xla#44565): every kind of processor therefore gets a folder of its own.
Anything wrong with the folder means compiling as without it. An unreadable entry is compiled anew. A folder that cannot
be written is not used. Processes that share one write the same bytes under the same name.
"""

import hashlib
import json
import os
import platform
import stat
import warnings
from pathlib import Path
from typing import Any

import platformdirs

from bandit_lab import _checks
from bandit_lab.app.arithmetic import processor
from bandit_lab.app.terminal.output import tell_once

SHORTEST = 0.05  # seconds: programs that compile faster are not worth a file
LARGEST = 2**30  # bytes: beyond, the entries that were used least recently make room


def user_folder() -> Path:
    """`bandit_lab` in the user's folder for caches: XDG_CACHE_HOME, else what the system uses."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) / "bandit_lab" if chosen else platformdirs.user_cache_path("bandit_lab", appauthor=False)


def kind_of_machine() -> str:
    """A short name of this kind of processor and of the compiler: model, instruction sets, jaxlib's version."""
    import jaxlib

    parts = [platform.system(), processor(), jaxlib.__version__]
    return f"{platform.machine()}-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]}"


def enable(chosen: str | bool | None) -> Path | None:
    """Keep compiled programs in `chosen`: `auto` or True, a path, or None or False for not at all.

    Does nothing where JAX's own settings name a folder or switch its cache off. Returns the folder if it is used.
    Raises ValueError for anything else. To be called before JAX is used.
    """
    known = chosen is None or isinstance(chosen, bool | str)
    _checks.require(known, "compilation_cache", "auto, a folder, or null", chosen)
    # XLA would print an error for every program loaded on processors whose tuning flags it mistakes for instructions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import jax

    config: Any = jax.config
    if not chosen or config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return None
    parent = user_folder() if chosen in (True, "auto") else Path(str(chosen)).expanduser()
    folder = _usable(parent / kind_of_machine())
    if folder is None:
        if chosen not in (True, "auto"):
            tell_once(f"compilation_cache: {parent} cannot be used as a folder; compiled programs are not kept")
        return None
    if (shared := _others_write(folder)) is not None:
        tell_once(f"compilation_cache: others can write to {shared}; programs run as they are, so none is kept or used")
        return None
    _make_room(folder)
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder


def _usable(folder: Path) -> Path | None:
    """The folder, made if need be, or None where it cannot be written or belongs to somebody else."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mine = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    except OSError:
        return None
    return folder if mine and os.access(folder, os.R_OK | os.W_OK | os.X_OK) else None


def _others_write(folder: Path) -> Path | None:
    """The folder, or one above it, in which somebody else can put programs of theirs in the place of ours, if any.

    In a folder with the sticky bit (/tmp) nobody replaces what is another's. The user's own group is no other.
    """
    if not hasattr(os, "getuid"):
        return None
    for place in (own := folder.resolve(), *own.parents):
        status = os.stat(place)
        group = bool(status.st_mode & stat.S_IWGRP) and status.st_gid != os.getgid()
        others = group or bool(status.st_mode & stat.S_IWOTH)
        if others and (place == own or not status.st_mode & stat.S_ISVTX):
            return place
    return None


def _make_room(folder: Path) -> None:
    """Delete the oldest entries until the rest takes less than `LARGEST` bytes.

    Once per process: JAX's own limit reads the times of all entries under a lock whenever it keeps a program.
    """
    try:
        entries = [(entry.stat(), entry.path) for entry in os.scandir(folder) if entry.is_file()]
        total = sum(stat.st_size for stat, _ in entries)
        for stat, path in sorted(entries, key=lambda entry: max(entry[0].st_atime, entry[0].st_mtime)):
            if total <= LARGEST:
                return
            os.unlink(path)
            total -= stat.st_size
    except OSError:
        return  # another process is doing the same
