"""What is known of the run that is watched: what the terminal and the page show."""

import contextlib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab.app.document import Value
from bandit_lab.runs.diagnose import DiagnoseSettings, Diagnosis
from bandit_lab.runs.logs.gather import Log
from bandit_lab.runs.monitor import Alarm, Monitor
from bandit_lab.runs.read import limits, read, scalars
from bandit_lab.runs.watch.rows import Rows, Stretch
from bandit_lab.runs.watch.settings import WatchSettings
from bandit_lab.runs.watch.sources import Source

FEWEST = 32
"""Rewards from which a forecast is made."""
AHEAD = 0.25
"""The forecast is about the mean of a tenth of the rows so far, this share of them ahead."""
_USED = ("probe/stability_used", "train/probe/stability_used")
"""What `TrlProbe` logs: the share of the threshold that the loop uses."""


@dataclass
class Watched:
    """A run, its monitor, the last forecast that was made, the margin, and what `diagnose` says at the end."""

    settings: WatchSettings
    source: Source
    monitor: Monitor
    made: Value | None = None
    final: Diagnosis | None = None
    horizon: float = math.nan
    logged_margin: float | None = None
    lines: int = 0

    def take(self, rows: Rows) -> list[Alarm]:
        """Rows as they come."""
        self.lines += len(rows)
        if isinstance(rows, Stretch):
            for key in _USED:
                self._told(rows.columns.get(key, []))
            return self.monitor.feed_columns(rows.steps, rows.columns)
        for key in _USED:
            self._told(row[key] for _, row in rows if key in row)
        return self.monitor.feed_all(rows)

    def _told(self, shares: Iterable[Any]) -> None:
        """The last share of the threshold that is one."""
        for share in shares:
            if (used := scalars.parse(share)) is not None and 0 < used < math.inf:
                self.logged_margin = 1 / used

    @property
    def reached(self) -> bool:
        """Whether the step is there at which the user wants to end."""
        until = self.settings.until
        return until is not None and self.monitor.step >= until

    @property
    def forecast(self) -> Value:
        """The last one, or why there is none."""
        if self.made is not None:
            return self.made
        few = self.monitor.rows < FEWEST
        return Value.absent(f"fewer than {FEWEST} rewards" if few else "not made yet")

    def judge(self, keywords: Mapping[str, Any]) -> None:
        """Judge the run as `diagnose` does, once no more comes; `keywords` say how its log is read.

        Of a log that is too large to be read once more, no longer whole, or holds what a restart took back, what the
        monitor kept is judged. Where that found no reward, `diagnose` may know one.
        """
        curve = self.monitor.curve()
        if not self.monitor.restarts:
            with contextlib.suppress(ValueError, OSError):
                if os.path.isdir(self.source.path) or os.path.getsize(self.source.path) <= limits.MAX_DOCUMENT_BYTES:
                    whole = read(self.source.path, **keywords)[0]
                    curve = whole if curve is None or whole.step.size >= curve.step.size else curve
        if curve is None:
            return
        from bandit_lab.runs.diagnose.work import work  # what it takes to judge as the command does is needed only here

        told = self.settings
        log = Log(curve.name, str(self.source.path), curve, group_size=told.group_size,
                  refresh_interval=told.refresh_interval)  # fmt: skip
        self.final = work(log, DiagnoseSettings())

    def look_ahead(self) -> None:
        """Forecast the reward from the block means that are kept.

        Without the oscillator, the one law that needs JAX: it is no forecaster, and its import costs more than all.
        """
        curve = self.monitor.curve()
        if curve is None or curve.reward.size < FEWEST:
            self.made = Value.absent(f"fewer than {FEWEST} rewards")
            return
        from bandit_lab.runs.fit import SHAPES
        from bandit_lab.runs.forecast.forecast import forecast
        from bandit_lab.runs.read.columns import at_most

        curve = at_most(curve, 128)
        width = max(curve.reward.size // 10, 1)
        last, every = float(curve.step[-1]), curve.log_every
        self.horizon = last + max(AHEAD * (last - float(curve.step[0])), width * every)
        target = np.asarray(self.horizon - every * np.arange(width)[::-1], np.float64)
        scale = (curve.scale.low, curve.scale.high) if curve.scale.given else None
        laws = tuple(name for name in SHAPES if name != "oscillator")
        made = forecast(curve.step, curve.reward, target[target > last], scale=scale, laws=laws)
        if made.refused:
            self.made = Value.absent(made.refused, "reward")
        else:
            self.made = Value(made.predicted, "reward").within(made.low, made.high, 0.9, "not bounded")

    @property
    def margin(self) -> Value:
        """How many times larger the learning rate may be before the loop is unstable: as logged, or from K."""
        if self.logged_margin is not None:
            return Value(self.logged_margin, "times")
        known = self.settings
        wanted = ("stiffness", "learning_rate", "refresh_interval")
        missing = [name for name in wanted if getattr(known, name) is None]
        if missing:
            return Value.absent(f"no probe/stability_used in the log (TrlProbe logs it), and no {', '.join(missing)}")
        from bandit_lab.theory import thresholds

        assert known.stiffness is not None
        assert known.learning_rate is not None
        assert known.refresh_interval is not None
        kappa = thresholds.exact("refresh", known.refresh_interval, known.momentum).kappa
        return Value.of(kappa / (known.stiffness * known.learning_rate), "no threshold for this loop", "times")
