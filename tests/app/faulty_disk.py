"""A disk that fails at a chosen operation: for tests of what writing leaves behind."""

import errno
import os

from bandit_lab.app.chunks import durable

OPERATIONS = ("open", "write", "fsync", "replace")


class FaultyDisk:
    """Stands for `os` in `chunks.durable`: counts its operations and fails, or kills the process, at the n-th one."""

    def __init__(self, fail_at: int | None = None, code: int = errno.ENOSPC, half_written: bool = False) -> None:
        self.fail_at, self.code, self.half_written = fail_at, code, half_written
        self.seen: list[str] = []

    def __getattr__(self, name):
        real = getattr(os, name)
        return real if name not in OPERATIONS else lambda *args, **options: self._do(name, real, args, options)

    def _do(self, name, real, args, options):
        self.seen.append(name)
        self.note(name, args)
        if len(self.seen) - 1 != self.fail_at:
            return None if name == "fsync" else real(*args, **options)  # nobody pulls this machine's plug
        if name == "write" and self.half_written:
            real(args[0], bytes(args[1])[: len(args[1]) // 2])
        return self.fault()

    def note(self, name, args):
        """Hears of every operation."""

    def fault(self):
        raise OSError(self.code, os.strerror(self.code))

    def install(self, monkeypatch) -> "FaultyDisk":
        monkeypatch.setattr(durable, "os", self)
        return self


class PowerCut(FaultyDisk):
    """The process is gone at the n-th operation: nothing of it, not even its clean-up, runs any more."""

    def fault(self):
        os._exit(9)
