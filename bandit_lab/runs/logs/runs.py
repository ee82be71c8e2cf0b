"""What the commands on logs share: a plan, one row per log, and the columns that say where it came from."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.document import ABSENT, Column, Document, Figure, On, Value
from bandit_lab.app.document.as_page import page_names
from bandit_lab.app.folder.store import REPORT
from bandit_lab.app.terminal.report import middle_cut
from bandit_lab.runs.logs.gather import Log
from bandit_lab.runs.logs.settings import LogSettings
from bandit_lab.runs.read import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

Result = TypeVar("Result")
MANY = 5
"""Logs from which a table gives each one line."""


@dataclass(frozen=True)
class LogRow(Generic[Result]):
    """One log, what was found in its curve (None where it has none), and the name of its page, if it has one."""

    log: Log
    result: Result | None
    page: str = ""

    @property
    def found(self) -> Result:
        """What was found in a curve that there is."""
        assert self.result is not None
        return self.result

    @property
    def curve(self) -> Curve:
        """The curve of a row that has one."""
        assert self.log.curve is not None
        return self.log.curve


def rows_of(logs: Sequence[Log], found: Sequence[Result | None], pages: bool, alone: str = "") -> list[LogRow[Result]]:
    """Every log with what was found in it. `alone`: what the page of a single log is called, by default as the log."""
    titles = [log.name for log in logs if log.curve is not None]
    names = iter([alone] if alone and len(logs) == 1 else page_names(titles))
    pairs = zip(logs, found, strict=True)
    return [LogRow(log, one, next(names) if pages and one is not None else "") for log, one in pairs]


def column(
    key: str, title: str, read: Callable[[LogRow[Result]], Any], *, null: bool = False, **more: Any
) -> Column[LogRow[Result]]:
    """A column of what was found; a log without a curve has a dash. `null`: its JSON then has null with the reason."""

    def known(row: LogRow[Result]) -> Any:
        if row.result is not None:
            return read(row)
        return Value.absent(row.log.reason) if null else ABSENT

    return Column(key, title, known, **more)


def first_columns(length: int, width: int | None = None) -> list[Column[LogRow[Any]]]:
    """Which log it is, and how it was read. `length`: of the name where there are many; `width`: of counts."""
    read = On.JSON
    return [
        Column("log", "log", lambda row: row.log.name, short=lambda row: middle_cut(row.log.name, length),
               link=lambda row: f"{row.page}.html" if row.page else "", on=On.JSON | On.SHOWN),
        Column("path", "path", lambda row: row.log.path, on=read),
        column("n_points", "points", lambda row: int(row.curve.step.size), null=True, brief="n", width=width,
               on=On.JSON | On.SHOWN),
        column("format", "format", lambda row: row.curve.format, on=read),
        column("framework", "framework", lambda row: row.curve.framework, on=read),
        column("reward_key", "reward", lambda row: row.curve.reward_series.key or Value.absent("no reward"), on=read),
        column("step_unit", "step unit", lambda row: row.curve.step_unit, on=read | On.DATA),
        column("steps", "steps", lambda row: [float(row.curve.leading.step[end]) for end in (0, -1)], on=read),
    ]  # fmt: skip


def last_columns(
    rows: Sequence[LogRow[Any]], length: int, status: Callable[[LogRow[Any]], str]
) -> list[Column[LogRow[Any]]]:
    """What a person saw, what became of the log, and where its page is."""
    where = On.TERMINAL if any(row.log.outcome for row in rows) else On.PAGE
    return [
        Column("outcome", "outcome", lambda row: row.log.outcome or ABSENT, on=On.JSON | On.PAGE | where,
               short=lambda row: middle_cut(row.log.outcome, length)),
        Column("status", "status", lambda row: status_of(row, status), on=On.JSON | On.PAGE),
        Column("page", "page", lambda row: f"{REPORT}/{row.page}.html" if row.page else ABSENT, on=On.JSON),
    ]  # fmt: skip


def status_of(row: LogRow[Any], status: Callable[[LogRow[Any]], str]) -> str:
    """The status of a log with a curve, or why it has none."""
    return f"no curve: {row.log.reason}" if row.result is None else status(row)


def status_lines(rows: Sequence[LogRow[Any]], status: Callable[[LogRow[Any]], str]) -> list[str]:
    """What could not be read or told, one line per log."""
    lines = (row.log.line if row.result is None else f"{row.log.name}: {status(row)}" for row in rows)
    return [line for row, line in zip(rows, lines, strict=True) if row.result is None or status(row) != "ok"]


def pages_of(rows: Sequence[LogRow[Result]], page: Callable[[LogRow[Result]], Document]) -> dict[str, Document]:
    """File name -> page of every log that has one."""
    return {row.page: page(row) for row in rows if row.page}


def picture_pages(rows: Sequence[Any], draw: "Callable[[Sequence[Any]], Drawn]", name: str, alt: str) -> list[Figure]:
    """Pictures of a page of rows each: `name.png`, or `name_1.png`, ... where one page does not hold them."""
    from bandit_lab.app.plots import PER_PAGE

    parts = [rows[start : start + PER_PAGE] for start in range(0, len(rows), PER_PAGE)]
    names = [name] if len(parts) == 1 else [f"{name}_{place + 1}" for place in range(len(parts))]
    return [Figure(functools.partial(draw, part), alt, one) for part, one in zip(parts, names, strict=True)]


def padded(curves: Sequence[np.ndarray]) -> np.ndarray:
    """Curves of different lengths [n_i] as one array, NaN behind their ends."""
    longest = max(curve.size for curve in curves)
    return np.stack([np.concatenate((curve, np.full(longest - curve.size, np.nan))) for curve in curves])


def curves_of(rows: Sequence[LogRow[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(variables, coordinates) of a data set: step and reward [run, point] of logs that have a curve."""
    step, reward = (padded([getattr(row.curve, name) for row in rows]) for name in ("step", "reward"))
    variables = {
        "step": (("run", "point"), step, {"units": "steps"}),
        "reward": (("run", "point"), reward, {"units": "reward"}),
    }
    coordinates = {
        "run": ("run", [row.log.name for row in rows]),
        "point": ("point", np.arange(step.shape[1]), {"units": "1", "long_name": "place in the log, from 0"}),
    }
    return variables, coordinates


def check_trainer(settings: LogSettings) -> None:
    """Raise ValueError for settings of the trainer out of range."""
    if settings.refresh_interval is not None:
        inside = _checks.positive("refresh_interval", settings.refresh_interval) >= 1
        _checks.require(inside, "refresh_interval", "a number >= 1", settings.refresh_interval)
    if settings.group_size is not None:
        _checks.integer("group_size", settings.group_size, 1)
