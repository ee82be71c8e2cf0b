"""What an alarm does besides being shown: one JSON line, a command."""

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from bandit_lab import _blas
from bandit_lab.app.terminal.output import say, tell
from bandit_lab.runs.monitor import Alarm

_WAIT = 5.0
"""Seconds that commands which still run at the end are waited for, all together."""


def holds_alarms(path: Path) -> bool:
    """Whether the first line of a file is an alarm."""
    with open(path, encoding="utf-8") as file:
        row = json.loads(file.readline(2**16))
    return isinstance(row, dict) and row.keys() == {"log", *(one.name for one in fields(Alarm))}


class AlarmSender:
    """Where alarms go. to_stdout: as JSON lines, where no page stands there."""

    def __init__(self, command: str | None, path: Path | None, about: str, to_stdout: bool) -> None:
        self._command, self._path, self._about, self._to_stdout = command, path, about, to_stdout
        self._started: list[subprocess.Popen[bytes]] = []

    def send(self, alarm: Alarm) -> None:
        """Write the line and start the command; neither can stop the watching."""
        line = json.dumps({"log": self._about, **alarm.to_dict()}, allow_nan=False)
        if self._to_stdout:
            say(line)
        if self._path is not None:
            try:
                with open(self._path, "a", encoding="utf-8") as file:
                    file.write(f"{line}\n")
            except OSError as error:
                tell(f"bandit_lab watch: alarms: cannot be written ({error.strerror})")
        if self._command is not None:
            self._start(self._command, line)

    def _start(self, command: str, line: str) -> None:
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        try:  # a session of its own: what the command starts can be ended with it
            environment = _blas.environment() | {"BANDIT_LAB_ALARM": line}
            started = subprocess.Popen(command, shell=True, env=environment, start_new_session=True, **options)
            self._started.append(started)
        except OSError as error:
            tell(f"bandit_lab watch: on_alarm: cannot be started ({error.strerror})")

    def close(self, wait: float = _WAIT) -> None:
        """Wait a moment for the commands that still run, all together; end the rest, and say which failed."""
        until = time.monotonic() + wait
        for one in self._started:
            try:
                code = one.wait(max(until - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                _end(one)
                tell(f"bandit_lab watch: on_alarm: still ran {wait:g} s after the end and was stopped")
                continue
            if code:
                tell(f"bandit_lab watch: on_alarm: ended with exit code {code}")
        self._started.clear()


def _end(one: "subprocess.Popen[bytes]") -> None:
    """End a command with everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(one.pid, signal.SIGKILL)
        else:
            one.kill()
    one.wait()
