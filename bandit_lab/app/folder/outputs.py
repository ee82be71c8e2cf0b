"""The one door for a file that the user names as an output: it never takes the place of what somebody else wrote."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bandit_lab import _checks

Ours = Callable[[Path], bool]
"""Whether a file is one that the same output wrote earlier, by what it holds."""


def output_file(
    name: str, path: Path, ours: Ours, reads: Iterable[str | Path | None] = (), appended: bool = False
) -> Path:
    """`path` if the command may write it: nothing of this name yet, an empty file, or one of its own. Writes nothing.

    reads: files and folders that the same command reads; a log's name in such a folder would be read, too. A device or
    pipe may be appended to, but no file takes its place.

    Raises:
      ValueError: the folder cannot be written, or the file is read or somebody else's.
    """
    writable = path.parent.is_dir() and os.access(path.parent, os.W_OK) and not path.is_dir()
    if path.exists():
        writable = writable and os.access(path, os.W_OK) and (appended or path.is_file())
    _checks.require(writable, name, "a file in a folder that can be written", str(path))
    _check_not_read(name, path, reads)
    free = not path.is_file() or path.stat().st_size == 0 or _holds(ours, path)
    _checks.require(free, name, "a new file, or one that an earlier call wrote", str(path))
    return path


def file_in(
    run_dir: str, name: str, ours: Ours, reads: Iterable[str | Path | None] = (), appended: bool = False
) -> Path:
    """As `output_file`, for `name` in a folder that the command makes where it is not there yet. Writes nothing."""
    folder = Path(run_dir)
    if folder.is_dir():
        return output_file("run_dir", folder / name, ours, reads, appended)
    above = next(one for one in folder.absolute().parents if one.exists())
    can_be = not folder.exists() and above.is_dir() and os.access(above, os.W_OK)
    _checks.require(can_be, "run_dir", "a folder that can be written", run_dir)
    _check_not_read("run_dir", folder / name, reads)
    return folder / name


def begins(mark: str) -> Ours:
    """Files that begin with this text."""

    def ours(path: Path) -> bool:
        with open(path, "rb") as file:
            return file.read(len(mark.encode())) == mark.encode()

    return ours


def _check_not_read(name: str, path: Path, reads: Iterable[str | Path | None]) -> None:
    taken = any(_is_read(path, Path(one)) for one in reads if one is not None)
    _checks.require(not taken, name, "a file that this command does not read or write otherwise", str(path))


def _holds(ours: Ours, path: Path) -> bool:
    try:
        return ours(path)
    except (OSError, ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError among them
        return False


def _is_read(path: Path, read: Path) -> bool:
    """Whether writing `path` changes what is read from `read`: the same file, or one more in its folder."""
    if path.exists() and read.exists() and path.samefile(read):
        return True
    own, other = Path(os.path.realpath(path)), Path(os.path.realpath(read))
    return own == other or (other in own.parents and other.is_dir())
