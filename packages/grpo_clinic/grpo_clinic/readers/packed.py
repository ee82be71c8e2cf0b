"""A log inside a gzip file: unpacked to a bounded temporary file and read by the name it had."""

import contextlib
import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from grpo_clinic.readers import limits
from grpo_clinic.readers.normalise import Parsed

MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20


class NoRoom(OSError):
    """A packed log cannot be unpacked into the folder for temporary files: this machine's fault, not the log's."""


def read(path: Path, parse: Callable[[Path], Parsed]) -> Parsed:
    """What `parse` makes of the unpacked file.

    Raises:
      ValueError: a damaged or too large archive.
      NoRoom: the content cannot be written here.
    """
    name = path.stem if path.suffix.lower() == ".gz" else path.name
    with _this_machine():
        room = tempfile.TemporaryDirectory()
    with room as folder:
        inside = Path(folder) / (name if name.strip(".") else "log")
        cut = _unpack(path, inside)
        parsed = parse(inside)
    notes = ("the gzip file is cut off: what could be unpacked was read",) if cut else ()
    return replace(parsed, format=f"{parsed.format}, gzip", notes=(*parsed.notes, *notes))


@contextlib.contextmanager
def _this_machine() -> Iterator[None]:
    """Inside, an OSError is that of a folder for temporary files."""
    try:
        yield
    except OSError as error:
        raise NoRoom(error.errno, error.strerror, error.filename or tempfile.gettempdir()) from error


def _unpack(path: Path, inside: Path) -> bool:
    """Whether the archive ended too early; what came before is kept."""
    with _this_machine(), open(inside, "wb") as out:
        for piece in _pieces(path):
            if piece is None:
                return True
            out.write(piece)
    return False


def _pieces(path: Path) -> Iterator[bytes | None]:
    """The content of an archive; None at its end if it is cut off. No OSError leaves it: that would be the writer's."""
    size = 0
    try:
        with gzip.open(path, "rb") as archive:
            while piece := archive.read1(_PIECE):
                size += len(piece)
                if size > limits.MAX_UNPACKED_BYTES:
                    raise limits.TooLarge(f"expected at most {limits.MAX_UNPACKED_BYTES} bytes in a gzip file")
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        if size == 0:
            raise ValueError(f"expected a gzip file, got a damaged one ({str(error)[:80]})") from None
        yield None
    except OSError as error:
        raise ValueError(f"expected a readable file, got {error.strerror}") from None
