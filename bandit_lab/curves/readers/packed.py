"""A log inside a gzip file: unpacked to a bounded temporary file and read by the name it had."""

import gzip
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bandit_lab.curves import limits
from bandit_lab.curves.normalise import Parsed

MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20


def read(path: Path, parse: Callable[[Path], Parsed]) -> Parsed:
    """What `parse` makes of the unpacked file. Raises ValueError for a damaged or too large archive."""
    name = path.stem if path.suffix.lower() == ".gz" else path.name
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / (name if name.strip(".") else "log")
        cut = _unpack(path, inside)
        parsed = parse(inside)
    notes = ("the gzip file is cut off: what could be unpacked was read",) if cut else ()
    return replace(parsed, format=f"{parsed.format}, gzip", notes=(*parsed.notes, *notes))


def _unpack(path: Path, inside: Path) -> bool:
    """Whether the archive ended too early; what came before is kept."""
    size = 0
    with open(inside, "wb") as out:
        try:
            with gzip.open(path, "rb") as packed:
                while piece := packed.read(_PIECE):
                    size += len(piece)
                    if size > limits.MAX_UNPACKED_BYTES:
                        raise limits.TooLarge(f"expected at most {limits.MAX_UNPACKED_BYTES} bytes in a gzip file")
                    out.write(piece)
        except (OSError, EOFError, zlib.error) as error:
            if size == 0:
                raise ValueError(f"expected a gzip file, got a damaged one ({str(error)[:80]})") from None
            return True
    return False
