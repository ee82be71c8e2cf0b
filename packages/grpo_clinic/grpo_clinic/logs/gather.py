"""The runs a command works on: read from paths or a table of runs, each a curve or the reason why there is none."""

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grpo_clinic import _checks
from grpo_clinic._text import visible
from grpo_clinic.logs.index import IndexEntry, positive, read_index
from grpo_clinic.logs.settings import PASTED, FitSettings, LogSettings
from grpo_clinic.readers import Curve, limits, read_all
from grpo_clinic.readers.columns import at_most
from grpo_clinic.readers.epochs import without_data_order
from grpo_clinic.readers.options import UNITS

LARGEST = 1e100
"""Rewards beyond it overflow when they are squared."""


@dataclass(frozen=True)
class Log:
    """One run: its `curve`, or in `reason` why there is none to fit; the trainer's numbers, None where unknown."""

    name: str
    path: str
    curve: Curve | None
    reason: str = ""
    group_size: int | None = None
    refresh_interval: float | None = None
    learning_rate: float | None = None

    @property
    def line(self) -> str:
        """One line for people: its name and why it has no curve; a file of that name is not named again."""
        shown = visible(self.path)
        named_after = self.name in (Path(shown).name, Path(shown).stem)
        reason = self.reason.removeprefix(f"{shown}: ") if named_after else self.reason
        return f"{self.name}: no curve: {reason}"


def gather(settings: LogSettings) -> list[Log]:
    """All runs, in order, with names that differ. Raises ValueError if none of them has a curve."""
    what = "logs (files or folders), or a table of runs (logs_index)"
    if not (settings.paths or settings.logs_index):
        raise ValueError(f"paths: expected {what}, got none")
    if settings.paths and settings.logs_index:
        raise ValueError(f"paths: expected {what}, one of the two, got both")
    one = "one run beside it (a table of runs names such files in its column eval_curve)"
    _checks.require(not (settings.eval_path and settings.logs_index), "eval_path", one, "logs_index")
    named = (("paths", settings.paths), ("beside", settings.beside), ("eval_path", (settings.eval_path,)))
    for key, path in ((key, str(path)) for key, paths in named for path in paths if path):
        if path != PASTED:
            _check_there(key, path)
    logs: list[Log] = []
    if settings.logs_index:
        logs += [_from_entry(entry, settings) for entry in read_index(settings.logs_index)]
    for path in settings.paths:
        logs += _pasted(settings) if path == PASTED else _from_path(path, settings)
    usable = [log for log in logs if log.curve is not None]
    _checks.require(not settings.eval_path or len(usable) < 2, "eval_path", one, f"{len(usable)} runs")
    if not usable:
        raise ValueError(_no_curve(logs, "logs_index" if settings.logs_index else "paths"))
    return _with_different_names(logs)


def _no_curve(logs: list[Log], key: str) -> str:
    """Why there is no run to work on, under the setting that is to blame."""
    if not logs:
        return f"{key}: expected a log, got none"
    reason = logs[0].reason
    named = reason if reason.startswith(("beside: ", "eval_path: ")) else f"{key}: {reason}"
    return named + (f" (and {len(logs) - 1} more without a usable curve)" if len(logs) > 1 else "")


def _check_there(key: str, path: str) -> None:
    """Raise ValueError for a path given by name that leads nowhere: a slip, unlike a log that cannot be read."""
    try:
        there = os.path.lexists(path)
    except ValueError:  # a NUL byte
        there = False
    shown = visible(path) if len(path) < 300 else f"{visible(path[:300])}..."
    if not there:
        column = f" (eval_key={shown} is a column of the log itself)" if key == "eval_path" else ""
        raise ValueError(f"{key}: {shown}: expected a readable file or folder{column}, got nothing of this name")


def _pasted(settings: LogSettings) -> list[Log]:
    """The text on standard input, up to its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pasted"
        path.write_bytes(sys.stdin.buffer.read(limits.MAX_PIPED_BYTES))
        logs = _from_path(str(path), settings)
        return [replace(log, path=PASTED, reason=log.reason.replace(str(path), "pasted text")) for log in logs]


def _from_path(path: str, settings: LogSettings) -> list[Log]:
    curves, skipped = read_all([path], settings)
    logs = [_log(curve.name, curve.source, curve, settings, {}) for curve in curves]
    return logs + [Log(visible(Path(one.path).name), one.path, None, one.reason) for one in skipped]


def _from_entry(entry: IndexEntry, settings: LogSettings) -> Log:
    alone = replace(settings, **entry.reading, beside=(), eval_path=None)
    curves, skipped = read_all([entry.path], alone)
    if len(curves) > 1 and all(one.restarted for one in curves):
        curves = [replace(curves[-1], notes=(*curves[-1].notes, f"the last of {len(curves)} runs in one file"))]
    if len(curves) != 1:
        several = f"{entry.path}: selector: expected one run, got {len(curves)}"
        return Log(entry.name, str(entry.path), None, several if curves else skipped[0].reason, **entry.settings)
    curve = curves[0]
    if entry.beside or entry.eval_path:  # a run is worth reading without what should lie beside it
        whole, skipped = read_all([entry.path], replace(alone, beside=entry.beside, eval_path=entry.eval_path))
        lost = skipped[0].reason if skipped else f"expected one run, got {len(whole)}"
        curve = whole[0] if len(whole) == 1 else replace(curve, notes=(*curve.notes, f"eval_curve: {lost}"))
    return _log(entry.name, str(entry.path), curve, settings, entry.settings)


def _log(name: str, path: str, curve: Curve, settings: LogSettings, numbers: Mapping[str, Any]) -> Log:
    """The run with its steps converted as asked, and the trainer's numbers: given, of the table, or of the log."""
    seen = curve.settings
    interval = settings.refresh_interval or numbers.get("refresh_interval") or positive(seen.get("refresh_interval"))
    size = settings.group_size or numbers.get("group_size") or int(positive(seen.get("group_size")) or 0) or None
    given = settings.learning_rate if isinstance(settings, FitSettings) else None
    rate = given or numbers.get("learning_rate")
    numbers = {"refresh_interval": interval, "group_size": size, "learning_rate": rate}
    try:
        if settings.convert_to is not None:
            curve = curve.in_unit(UNITS[settings.convert_to], interval)
        points = int(curve.step.size)
        fewest = limits.FEWEST_POINTS if settings.needs_reward else 0
        _checks.require(points >= fewest, "points", f"at least {fewest} rewards", points)
        largest = float(np.abs(curve.reward).max(initial=0))
        _checks.require(largest < LARGEST, "reward", f"numbers below {LARGEST:g}", largest)
    except ValueError as error:
        return Log(name, path, None, f"{path}: {error}", **numbers)
    return Log(name, path, at_most(without_data_order(curve)), **numbers)


def _with_different_names(logs: list[Log]) -> list[Log]:
    seen: dict[str, int] = {}
    result = []
    for log in logs:
        seen[log.name] = seen.get(log.name, 0) + 1
        result.append(log if seen[log.name] == 1 else replace(log, name=f"{log.name} ({seen[log.name]})"))
    return result
