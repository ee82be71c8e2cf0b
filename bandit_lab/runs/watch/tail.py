"""The new lines of a file that another process writes: rotated, cut, not there yet, its last line half written."""

import os
import re
import stat
from pathlib import Path

from bandit_lab.runs.read import limits

CHUNK = 2**20
"""Bytes read at a time, so many that what is done once a read is little beside it."""
_HEAD = 256
_BREAK = re.compile(rb"\r\n|\n|\r")

Text = bytes | memoryview
"""Whole lines. A view is of a place that is read into again: it holds until the next call."""


def lines_of(text: Text) -> list[bytes]:
    """The lines of a text that are not empty."""
    text = bytes(text)
    lines = _BREAK.split(text) if b"\r" in text else text.split(b"\n")
    return [line for line in lines if line]  # a \r\n that was torn apart leaves an empty one


class FileTail:
    """Follows one path. `poll` gives the whole lines that are new; what happened to the file stands in `events`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[str] = []
        self._file: int | None = None
        self._offset = 0
        self._rest = b""
        self._head = b""
        self._room = bytearray()

    @property
    def there(self) -> bool:
        """Whether the file has been opened."""
        return self._file is not None

    def poll(self) -> Text:
        """Whole lines that were written since the last call, as they stand; no more than about `CHUNK` bytes."""
        if self._file is None and not self._open():
            return b""
        text = self._read()
        if not text and not self.behind and self._moved() and self._open():
            self.events.append("the log was rotated: a new file of this name is followed")
            text = self._read()
        return text

    def close(self) -> bytes:
        """The last line, should it have no end; the file is closed."""
        rest, self._rest = self._rest, b""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return rest if rest.strip() else b""

    def _open(self) -> bool:
        try:
            fresh = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return False
        if stat.S_ISDIR(os.fstat(fresh).st_mode):
            os.close(fresh)
            return False
        if self._file is not None:
            os.close(self._file)
        self._file, self._offset, self._rest, self._head = fresh, 0, b"", b""
        return True

    def _moved(self) -> bool:
        """Whether the name belongs to another file now. A name that is gone for a moment does not count."""
        assert self._file is not None
        try:
            named, held = os.stat(self.path), os.fstat(self._file)
        except OSError:
            return False
        return (named.st_ino, named.st_dev) != (held.st_ino, held.st_dev)

    def _read(self) -> Text:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if self._offset and (size < self._offset or os.pread(self._file, len(self._head), 0) != self._head):
            self.events.append("the log was cut: it is read from its beginning")
            self._offset, self._rest, self._head = 0, b"", b""
        if size == self._offset:
            return b""
        if len(self._head) < _HEAD:
            self._head = os.pread(self._file, _HEAD, 0)
        held = len(self._rest)
        if len(self._room) < held + CHUNK:  # kept: fresh room of this size would be cleared by the system every time
            self._room = bytearray(held + CHUNK)
        self._room[:held] = self._rest
        os.lseek(self._file, self._offset, os.SEEK_SET)
        count = os.readv(self._file, [memoryview(self._room)[held : held + CHUNK]])
        self._offset += count
        return self._whole(held + count)

    def _whole(self, size: int) -> Text:
        """The whole lines among the first bytes of the room; what follows them is kept."""
        end = self._room.rfind(b"\n", 0, size) + 1
        end = max(end, self._room.rfind(b"\r", end, size) + 1)
        self._rest = bytes(memoryview(self._room)[end:size]) if size - end <= limits.MAX_LINE else b""
        return memoryview(self._room)[:end]

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        return self._file is not None and os.fstat(self._file).st_size > self._offset
