"""Files that are whole or absent, also after `kill -9`, a full disk or a power cut.

A file is written beside its place, forced to the disk, moved there, and the folder's entry is forced to the disk too.
Without the first fsync a power cut can leave a file of the right name and no content. Without the second it can leave
none at all, although a later file is there.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write `data` to `path`: when this returns it is on the disk, if it raises OSError `path` is as it was."""
    partial = _beside(path)
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
    _sync(path.parent)


@contextlib.contextmanager
def built(path: Path) -> Iterator[Path]:
    """Where a folder is built that is put in the place of `path` at the end. If that fails, `path` is as it was."""
    partial = _beside(path)
    try:
        yield partial
        for folder, _, names in os.walk(partial, topdown=False):
            for name in (*names, ""):
                _sync(Path(folder, name))
        shutil.rmtree(path, ignore_errors=True)
        os.replace(partial, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes were building in `folder`. Only for who holds its lock."""
    for path in folder.glob(".*.[0-9]*.partial"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _beside(path: Path) -> Path:
    """Where it is built; two processes never share one."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
