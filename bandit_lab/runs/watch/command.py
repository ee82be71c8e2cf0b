"""`watch`: follows a log that grows; verdict, forecast and margin on one page, alarms as they come."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.chunks import durable
from bandit_lab.app.document import Document
from bandit_lab.app.folder.outputs import begins, file_in
from bandit_lab.app.terminal import report
from bandit_lab.app.terminal.errors import Alarmed, stopped_by_disk
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs.monitor import Monitor
from bandit_lab.runs.read.options import ReadOptions, parse_where
from bandit_lab.runs.watch import show
from bandit_lab.runs.watch.alarms import AlarmSender, holds_alarms
from bandit_lab.runs.watch.rows import Rows
from bandit_lab.runs.watch.settings import WatchSettings
from bandit_lab.runs.watch.sources import Reading, changed, follow
from bandit_lab.runs.watch.state import Watched

PAGE, ALARMS = "page.html", "alarms.jsonl"
_REDRAW = 1.0
"""Seconds between two drawings of the terminal page, at the least."""


@dataclass(frozen=True)
class WatchPlan:
    """Checked settings; `path` is what is followed."""

    settings: WatchSettings
    path: Path
    reading: Reading


class Budget:
    """What watching may cost: a share of one core, over all the time that it has lasted.

    Costly things happen as often as the share allows, by what they cost last time [CPU seconds].
    """

    def __init__(self, share: float = 0.03, guess: float = 3.0) -> None:
        self._share, self._guess = share, guess
        self._start = time.monotonic()
        self._cost: dict[str, float] = {}
        self._done: dict[str, float] = {}

    def afford(self, name: str) -> bool:
        """Whether the process has spent little enough for this to happen now; one thing at a time in its turn."""
        cost = self._cost.get(name, self._guess)
        now = time.monotonic()
        if now - self._done.get(name, self._start) < cost / self._share:
            return False
        return time.process_time() + cost <= self._share * (now - self._start) + self._guess

    def spend(self, name: str, action: Callable[[], None]) -> None:
        """Do `action`, and record its processor time under `name`."""
        before = time.process_time()
        try:
            action()
        finally:
            self._cost[name] = time.process_time() - before
            self._done[name] = time.monotonic()


def prepare(settings: WatchSettings, explicit: frozenset[str]) -> WatchPlan:
    """Check every setting; nothing is opened, for the log may not exist yet. Raises ValueError."""
    if len(settings.paths) != 1:
        raise ValueError(f"paths: expected one log or folder, got {len(settings.paths) or 'none'}")
    for name in ("seconds", "idle", "every"):
        if getattr(settings, name) is not None:
            _checks.positive(name, getattr(settings, name))
    for name in ("stiffness", "learning_rate"):
        if getattr(settings, name) is not None:
            _checks.positive(name, getattr(settings, name))
    _checks.momentum("momentum", settings.momentum)
    if settings.refresh_interval is not None:
        _checks.integer("refresh_interval", settings.refresh_interval, 1)
    if settings.run_dir is not None:
        file_in(settings.run_dir, PAGE, begins(show.HEAD), settings.paths)
        file_in(settings.run_dir, ALARMS, holds_alarms, settings.paths, appended=True)
    scale = _scale(settings)
    options = ReadOptions(
        settings.reward_key, settings.step_key, settings.eval_key, parse_where(settings.where), settings.run,
        scale, None, settings.log_every,
    )  # fmt: skip
    names = ("reward_key", "step_key", "eval_key", "where", "run", "log_every")
    keywords: dict[str, Any] = {name: getattr(options, name) for name in names} | {"scale": scale}
    _monitor(settings)
    return WatchPlan(settings, Path(settings.paths[0]), Reading(options, keywords))


def _scale(settings: WatchSettings) -> tuple[float, float] | None:
    if settings.reward_scale is None:
        return None
    low, high = _checks.numbers("reward_scale", settings.reward_scale, 2)
    return float(low), float(high)


def _monitor(settings: WatchSettings) -> Monitor:
    return Monitor(
        group_size=settings.group_size,
        scale=_scale(settings),
        patience=settings.patience,
        false_alarm=settings.false_alarm,
        reward_key=settings.reward_key,
        eval_key=settings.eval_key,
    )


def execute(plan: WatchPlan, folder: Any, progress: Progress) -> Path:
    """Follow until the end. Returns the page, or the log. Raises `Alarmed` where alarms stand at the end."""
    run = _followed(plan, speaks=True)
    report.show(show.terminal(run))
    page = _written(plan.settings, PAGE)
    if page is not None:
        _write(run, page)
    if run.monitor.alarms:
        raise Alarmed(", ".join(run.monitor.verdict).replace("_", " "), page or plan.path)
    return page or plan.path


def compute(plan: WatchPlan, progress: Progress) -> Document:
    """What is known at the end, without a word on the terminal."""
    run = _followed(plan, speaks=False)
    page = _written(plan.settings, PAGE)
    if page is not None:
        _write(run, page)
    return show.document(run)


def _followed(plan: WatchPlan, speaks: bool) -> Watched:
    """The run at its end. speaks: whether the terminal shows it, or the alarms as they come."""
    settings, path = plan.settings, plan.path
    run = Watched(settings, follow(path, plan.reading), _monitor(settings))
    interrupted = False
    if settings.run_dir is not None:
        Path(settings.run_dir).mkdir(parents=True, exist_ok=True)
    with _live(settings) if speaks else contextlib.nullcontext() as draw:
        sender = AlarmSender(settings.on_alarm, _written(settings, ALARMS), str(path), speaks and draw is None)
        try:
            _loop(run, sender, _written(settings, PAGE), draw)
        except KeyboardInterrupt:
            interrupted = True
        else:
            _send(run, sender, run.source.close())
    if interrupted:
        sender.close(0.0)
    else:
        run.judge(plan.reading.keywords)
        run.look_ahead()
        sender.close()
    return run


def _written(settings: WatchSettings, name: str) -> Path | None:
    return None if settings.run_dir is None else Path(settings.run_dir, name)


def _send(run: Watched, sender: AlarmSender, rows: Rows) -> bool:
    """Take rows; whether there was an alarm."""
    alarms = run.take(rows)
    for alarm in alarms:
        sender.send(alarm)
    return bool(alarms)


def _loop(run: Watched, sender: AlarmSender, page: Path | None, draw: Callable[[Any], None] | None) -> None:
    settings, budget = run.settings, Budget()
    start = fresh = time.monotonic()
    end = start + (settings.seconds or math.inf)
    drawn = -math.inf
    written, mark = False, None
    while True:
        seen = run.lines
        alarmed = _send(run, sender, run.source.poll())
        now, grown = time.monotonic(), mark
        mark = changed(run.source.path)
        fresh = now if run.lines > seen or mark != grown else fresh
        first = not written and run.lines > 0 and not run.source.behind  # nobody waits for the budget to see a page
        if page is not None and (alarmed or first or budget.afford("page")):
            budget.spend("page", lambda: _write(run, page))
            written = True
        if run.monitor.rows and budget.afford("forecast"):
            budget.spend("forecast", run.look_ahead)
        if draw is not None and (alarmed or now - drawn >= _REDRAW):
            draw(show.terminal(run))
            drawn = now
        idle = settings.idle is not None and now - fresh >= settings.idle
        over = run.source.ended and (now - fresh >= settings.every or _is_old(mark, settings.every))
        if now >= end or idle or ((run.reached or over) and not run.source.behind):
            return
        if not run.source.behind:
            time.sleep(min(settings.every, max(end - now, 0.0)))


def _is_old(mark: tuple[int, int] | None, seconds: float) -> bool:
    return mark is not None and time.time_ns() - mark[0] >= seconds * 1e9


@contextlib.contextmanager
def _live(settings: WatchSettings) -> Iterator[Callable[[Any], None] | None]:
    """The terminal page, or None where stdout is no terminal or nothing is to be shown."""
    if settings.quiet or not sys.stdout.isatty():
        yield None
        return
    from rich.live import Live

    with Live(auto_refresh=False, transient=True) as live:
        yield lambda text: live.update(text, refresh=True)


def _write(run: Watched, page: Path) -> None:
    from bandit_lab.app.document.as_page import as_html

    with stopped_by_disk(page):
        durable.write_file(page, as_html(show.document(run)).encode())
