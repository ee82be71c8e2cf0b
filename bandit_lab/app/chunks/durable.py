"""Files that are whole or absent, also after `kill -9`, a full disk or a power cut.

A file is written beside its place, forced to the disk, moved there, and the folder's entry is forced to the disk too.
Without the first fsync a power cut can leave a file of the right name and no content. Without the second it can leave
none at all, although a later file is there.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

PARTIAL = ".partial"
_LEFT = re.compile(rf"\.(.+)\.\d+{re.escape(PARTIAL)}")  # what `partial_name` makes


def partial_name(path: Path) -> Path:
    """Where a file or folder is built before it is moved to `path`; two processes never share one."""
    return path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write `data` to `path`: when this returns it is on the disk, if it raises OSError `path` is as it was."""
    partial = partial_name(path)
    try:
        target = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(target, rest) :]
            os.fsync(target)
        finally:
            os.close(target)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    sync_folder(path.parent)


def move_folder(partial: Path, path: Path) -> None:
    """Put a finished folder in the place of `path`, after everything in it is on the disk."""
    for folder, _, names in os.walk(partial, topdown=False):
        for name in names:
            _sync(Path(folder, name))
        sync_folder(Path(folder))
    shutil.rmtree(path, ignore_errors=True)
    os.replace(partial, path)
    sync_folder(path.parent)


@contextlib.contextmanager
def built(path: Path) -> Iterator[Path]:
    """Where a folder is built that is put in the place of `path` at the end. If that fails, `path` is as it was."""
    partial = partial_name(path)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        move_folder(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Force the entries of a folder to the disk, where the system can."""
    if os.name == "posix":
        _sync(folder)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def remove_leftovers(folder: Path, written_here: Callable[[str], bool]) -> None:
    """Remove what killed processes were building in `folder`, under names that are written here; links stay.

    Only for who holds the folder's lock.
    """
    for path in folder.iterdir() if folder.is_dir() else ():
        name = left_over(path.name)
        if name is None or not written_here(name) or path.is_symlink():
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def left_over(name: str) -> str | None:
    """The name of which `name` is the unfinished file or folder, or None."""
    found = _LEFT.fullmatch(name)
    return found[1] if found else None
