"""What an alarm does besides being shown: one JSON line, a command."""

import json
import subprocess
from pathlib import Path
from typing import Any

from bandit_lab import _blas
from bandit_lab.curves.monitor import Alarm
from bandit_lab.study.terminal.output import say, tell

_WAIT = 5.0
"""Seconds that commands which still run at the end are waited for."""


class Outlet:
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
        try:
            environment = _blas.environment() | {"BANDIT_LAB_ALARM": line}
            self._started.append(subprocess.Popen(command, shell=True, env=environment, **options))
        except OSError as error:
            tell(f"bandit_lab watch: on_alarm: cannot be started ({error.strerror})")

    def close(self) -> None:
        """Wait a moment for commands that still run, and say which failed."""
        for one in self._started:
            try:
                code = one.wait(_WAIT)
            except subprocess.TimeoutExpired:
                continue
            if code:
                tell(f"bandit_lab watch: on_alarm: ended with exit code {code}")
