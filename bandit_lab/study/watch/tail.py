"""The new lines of a file that another process writes: rotated, cut, not there yet, its last line half written."""

import os
import re
from pathlib import Path

from bandit_lab.curves import limits

CHUNK = 2**20
"""Bytes read at a time."""
MOST = 2 * CHUNK
"""Bytes read at most before the follower looks at the clock again."""
_HEAD = 256
_BREAK = re.compile(rb"\r\n|\n|\r")


class Tail:
    """Follows one path. `poll` gives the complete lines that are new; what happened to the file stands in `events`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[str] = []
        self._file: int | None = None
        self._offset = 0
        self._rest = b""
        self._head = b""

    @property
    def there(self) -> bool:
        """Whether the file has been opened."""
        return self._file is not None

    def poll(self) -> list[bytes]:
        """Complete lines [at most `MOST` bytes] that were written since the last call; empty ones are left out."""
        if self._file is None and not self._open():
            return []
        lines = self._read()
        if not lines and self._moved() and self._open():
            self.events.append("the log was rotated: a new file of this name is followed")
            lines = self._read()
        return lines

    def close(self) -> list[bytes]:
        """The last line, should it have no end; the file is closed."""
        rest, self._rest = self._rest, b""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return [rest] if rest.strip() else []

    def _open(self) -> bool:
        try:
            fresh = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
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

    def _read(self) -> list[bytes]:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if self._offset and (size < self._offset or os.pread(self._file, len(self._head), 0) != self._head):
            self.events.append("the log was cut: it is read from its beginning")
            self._offset, self._rest, self._head = 0, b"", b""
        if size == self._offset:
            return []
        if len(self._head) < _HEAD:
            self._head = os.pread(self._file, _HEAD, 0)
        lines: list[bytes] = []
        end = min(size, self._offset + MOST)
        while self._offset < end and (data := os.pread(self._file, min(CHUNK, end - self._offset), self._offset)):
            self._offset += len(data)
            data = self._rest + data
            *whole, self._rest = _BREAK.split(data) if b"\r" in data else data.split(b"\n")
            lines += [line for line in whole if line]  # a \r\n that was torn apart leaves an empty one
            if len(self._rest) > limits.MAX_LINE:
                self._rest = b""
        return lines

    @property
    def behind(self) -> bool:
        """Whether there is more to read at once."""
        return self._file is not None and os.fstat(self._file).st_size > self._offset
