"""Opening a log without trusting it: what kind of file it is, and its lines, bounded in length and number."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from grpo_clinic.readers import limits

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[ -/]?[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
_HEAD = 65536
_ARCHIVES = (
    (b"PK\x03\x04", "a zip archive or PyTorch checkpoint"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "a SQLite database"),
    (b"\x93NUMPY", "a NumPy array"),
    (b":W&B", "a binary wandb log (its files/output.log is readable)"),
)
_HOLE = re.compile(rb"(?<=[\n\r -~\x80-\xff])\0{64,}")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def check(path: Path) -> int:
    """Size [bytes] of a regular, non-empty file. Raises ValueError for anything else."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"expected a readable file, got {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("expected a regular file, got a device, pipe or socket")
    if status.st_size == 0:
        raise ValueError("expected a log, got an empty file")
    if status.st_size > limits.MAX_TEXT_BYTES:
        raise ValueError(f"expected a log of at most {limits.MAX_TEXT_BYTES} bytes, got {status.st_size}")
    return status.st_size


def head(path: Path) -> bytes:
    """The first 64 KiB. Raises ValueError where the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise ValueError(f"expected a readable file, got {error.strerror}") from None


def is_event_file(start: bytes) -> bool:
    """Whether these are the first bytes of a TensorBoard event file: a framed record that names its version."""
    return b"brain.Event:" in start[:64]


def refuse_binary(start: bytes) -> None:
    """Raises ValueError, naming the kind where it is known, unless these bytes may be text. Nothing is unpickled."""
    for magic, kind in _ARCHIVES:
        if start.startswith(magic):
            raise ValueError(f"expected a text log, JSON, CSV or event file, got {kind}")
    if len(start) > 1 and start[0] == 0x80 and 2 <= start[1] <= 5:
        raise ValueError("expected a log, got a pickle, which is never opened because it can run code")
    if not start.startswith(_UTF16) and b"\0" in _HOLE.sub(b"\n", start):
        raise ValueError("expected a text log, JSON, CSV or event file, got binary data")


def first_text(start: bytes) -> str:
    """The first bytes as text."""
    return start.decode("utf-16" if start.startswith(_UTF16) else "utf-8", errors="replace")


def _encoding(start: bytes) -> str:
    return "utf-16" if start.startswith(_UTF16) else "utf-8-sig"


def text(path: Path) -> str:
    """The whole file as text. Raises ValueError if it is larger than a document may be."""
    size = check(path)
    if size > limits.MAX_DOCUMENT_BYTES:
        raise ValueError(
            f"expected a JSON document of at most {limits.MAX_DOCUMENT_BYTES} bytes, got {size}; "
            "write it as JSONL (one row per line), which is streamed"
        )
    try:
        return path.read_bytes().decode(_encoding(head(path)), errors="replace")
    except OSError as error:
        raise ValueError(f"expected a readable file, got {error.strerror}") from None


class Lines:
    """The lines of a text file, split at \\n, \\r\\n and \\r (progress bars), without colour codes.

    Lines above `limits.MAX_LINE` characters are skipped and counted in `skipped`, never held. Runs of NUL bytes, left
    where a file was cut while a process went on writing to it, are taken out and counted in `holes`.
    """

    def __init__(self, path: Path):
        self.path = path
        self.skipped = 0
        self.holes = 0

    def __iter__(self) -> Iterator[str]:
        start = head(self.path)
        try:
            with open(self.path, encoding=_encoding(start), errors="replace", newline=None) as file:
                too_long = False
                while line := file.readline(limits.MAX_LINE):
                    complete = line.endswith("\n")
                    if too_long or (not complete and len(line) >= limits.MAX_LINE):
                        self.skipped += not too_long
                        too_long = not complete
                        continue
                    if "\0" in line:
                        self.holes += 1
                        line = line.replace("\0", "")
                    yield _ANSI.sub("", line) if "\x1b" in line else line
        except OSError as error:
            raise ValueError(f"expected a readable file, got {error.strerror}") from None
        except UnicodeError:
            raise ValueError("expected UTF-8 or UTF-16 text, got something else") from None

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each part that was left out."""
        notes = []
        if self.skipped:
            notes.append(f"{self.skipped} lines of more than {limits.MAX_LINE} characters skipped")
        if self.holes:
            notes.append(f"{self.holes} holes of NUL bytes: text is missing there")
        return tuple(notes)
