"""The monitor of one run: rows come one by one, looks come on a schedule, an alarm comes once per failure."""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from grpo_clinic import _checks
from grpo_clinic.monitor import spending
from grpo_clinic.monitor.history import ROOM, History
from grpo_clinic.monitor.keys import LogKeys
from grpo_clinic.readers import scalars
from grpo_clinic.readers.record import Curve, Floats, RewardScale, Series
from grpo_clinic.report import Report, report
from grpo_clinic.rules import Case, Fact, rules

_NO_NUMBER = 3
"""Rows without a number, one behind the other, that mean divergence."""
_GRADIENTS = 64
"""Steps without a gradient that are remembered: more of them say nothing more."""
_STRETCH = 32
"""Rows of the same names from which it pays to take them as columns."""


@dataclass(frozen=True)
class Alarm:
    """A failure that the monitor is sure of: seen at `step` (row `row`), set in at step `onset`; `text` says what."""

    failure: str
    step: float
    row: int
    onset: float
    score: float
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an onset that is not known is None."""
        return {**asdict(self), "onset": self.onset if math.isfinite(self.onset) else None}


class Monitor:
    """Judges a run while it lives.

        monitor = Monitor(group_size=8)
        for alarm in monitor.update(step, **metrics):
            print(alarm.text)

    Args:
        group_size: G of the trainer; allows a bound on silent groups where none are logged.
        scale: (lowest, highest) reward possible; estimated if not given.
        patience: rows after which a run that has gained nothing is called stalled; None: never. Slow runs are, too.
        false_alarm: rate of false alarms over a whole run, all failures but `stalled` together.
        reward_key: name of the reward, where it is not a known one.
        eval_key: name of the held-out result.
        limits: of rules, by name, in place of theirs.
        room: block means kept of every quantity.

    Raises:
        ValueError: for numbers out of range.
    """

    def __init__(
        self,
        *,
        group_size: int | None = None,
        scale: tuple[float, float] | None = None,
        patience: int | None = None,
        false_alarm: float = 0.05,
        reward_key: str | None = None,
        eval_key: str | None = None,
        limits: Mapping[str, float] | None = None,
        room: int = ROOM,
    ) -> None:
        if group_size is not None:
            _checks.integer("group_size", group_size, 1)
        if patience is not None:
            _checks.integer("patience", patience, spending.FIRST)
        if scale is not None:
            low, high = _checks.numbers("scale", scale, 2)
            _checks.require(low < high, "scale", "(lowest, highest) with lowest < highest", scale)
        _checks.require(1e-12 <= false_alarm < 1, "false_alarm", "a number in [1e-12, 1)", false_alarm)
        _checks.integer("room", room, 2 * spending.FIRST)
        self._group_size, self._patience, self._rate = group_size, patience, false_alarm
        self._scale = None if scale is None else RewardScale(float(scale[0]), float(scale[1]), True)
        self._limits = dict(limits or {})
        rules(self._limits)
        self._room = room
        self._keys = LogKeys(reward_key, eval_key)
        self._held: dict[str, History] = {}
        self._since: dict[str, tuple[int, int]] = {}
        self._lost = self._longest = self._blind = 0
        self._gradient_lost: list[float] = []
        self._looks = self._held_out_looks = self._held_out_size = 0
        self._next = 1
        self._unproven: set[str] = set()
        self.rows = 0
        self.restarts = 0
        self.step = -math.inf
        self.alarms: list[Alarm] = []
        self.report: Report | None = None

    def update(self, step: float, **metrics: Any) -> list[Alarm]:
        """Take one logged row; returns the alarms that it raised, usually none.

        A step that lies before the last one is a restart from a checkpoint: what was logged from there on is
        forgotten. Any number counts: Python's, NumPy's, a tensor of one element. Metrics of unknown name, text and
        missing values are passed over. `spending.FIRST` updates without a single reward are a UserWarning.
        """
        return self.feed(step, metrics)

    def feed(self, step: float, metrics: Mapping[str, Any]) -> list[Alarm]:
        """`update` for names that are no Python names. Raises ValueError for a step that is not finite."""
        step = float(step)
        _checks.require(math.isfinite(step), "step", "a finite number", step)
        if step < self.step:
            self._restart(step)
        self.step = step
        roles = self._keys.roles(metrics)
        for role, key in roles.items():
            value = scalars.parse(metrics[key]) if key in metrics else None
            if value is None:
                continue
            if role == "reward":
                self._count(value)
            if role == "grad_norm":
                self._count_gradient(step, value)
            if math.isfinite(value):
                if role not in self._held:
                    self._held[role] = History(self._room)
                self._held[role].add(step, value)
        self._watch_out(1, metrics)
        return self._judge() if roles.get("reward") in metrics else []

    def _watch_out(self, updates: int, metrics: Mapping[str, Any]) -> None:
        """Warn once of a log in which no reward is found: nothing would ever be judged."""
        if self.rows:
            return
        before, self._blind = self._blind, self._blind + updates
        if before < spending.FIRST <= self._blind:
            names = ", ".join(list(metrics)[:8]) or "none"
            told = f"{self._blind} updates without a reward that is a number: name it with reward_key="
            warnings.warn(f"Monitor: {told}, of {names}", stacklevel=3)

    def feed_all(self, rows: Sequence[tuple[float, Mapping[str, Any]]]) -> list[Alarm]:
        """`feed` for many rows (step, metrics) at a fraction of the cost: the same looks, and the same alarms."""
        found: list[Alarm] = []
        for names, group in itertools.groupby(rows, lambda one: tuple(one[1])):
            part = [*group]
            if len(part) >= _STRETCH:
                columns = {name: [row[name] for _, row in part] for name in names}
                found += self.feed_columns([step for step, _ in part], columns)
            else:
                found += [alarm for step, row in part for alarm in self.feed(step, row)]
        return found

    def feed_columns(self, steps: Sequence[float] | Floats, columns: Mapping[str, Any]) -> list[Alarm]:
        """`feed` for rows of the same names: their steps [n], and name -> values [n]."""
        if (plain := self._plain(steps, columns)) is not None:
            found = self._feed_numbers(*plain)
            self._watch_out(len(steps), columns)
            return found
        rows = ({name: one[i] for name, one in columns.items()} for i in range(len(steps)))
        return [alarm for step, row in zip(steps, rows, strict=True) for alarm in self.feed(step, row)]

    def _plain(
        self, steps: Sequence[float] | Floats, columns: Mapping[str, Any]
    ) -> tuple[Floats, dict[str, Floats]] | None:
        """(steps [n], role -> values [n]); None unless all are plain finite numbers, behind the last step."""
        known = {role: columns[key] for role, key in self._keys.roles(columns).items() if key in columns}
        numbers = [made for one in (steps, *known.values()) if (made := _numbers(one)) is not None]
        if len(numbers) <= len(known) or (np.diff(numbers[0], prepend=self.step) <= 0).any():
            return None
        return numbers[0], dict(zip(known, numbers[1:], strict=True))

    def _feed_numbers(self, steps: Floats, columns: Mapping[str, Floats]) -> list[Alarm]:
        found: list[Alarm] = []
        first = 0
        while first < steps.size:
            last = steps.size
            if "reward" in columns:  # up to the next look
                last = min(first + max(self._next - self.rows, 1), last)
                self.rows += last - first
                self._longest, self._lost = max(self._longest, self._lost), 0
            if "grad_norm" in columns:
                self._gradient_lost.clear()
            for role, values in columns.items():
                self._held.setdefault(role, History(self._room)).extend(steps[first:last], values[first:last])
            self.step = float(steps[last - 1])
            found += self._judge() if "reward" in columns else []
            first = last
        return found

    def _count(self, value: float) -> None:
        self.rows += 1
        if math.isfinite(value):
            self._longest, self._lost = max(self._longest, self._lost), 0
        else:
            self._lost += 1

    def _count_gradient(self, step: float, value: float) -> None:
        """Steps at the end whose gradient norm is not finite, the first few of them."""
        if math.isfinite(value):
            self._gradient_lost.clear()
        elif len(self._gradient_lost) < _GRADIENTS:
            self._gradient_lost.append(step)

    def _restart(self, step: float) -> None:
        self.restarts += 1
        for held in self._held.values():
            held.cut(step)
        reward = self._held.get("reward")
        self.rows = 0 if reward is None else reward.size * reward.width
        self._lost = 0
        self._gradient_lost = [one for one in self._gradient_lost if one < step]
        self._since = {}
        self._next = self.rows + 1  # the number of looks goes on: what is spent is spent
        self.alarms = [one for one in self.alarms if one.step < step]

    def _judge(self) -> list[Alarm]:
        new = self._no_number()
        if self.rows >= self._next and (curve := self.curve()) is not None:
            self._next = spending.next_look(self.rows)
            new += self._look(curve) if curve.reward.size >= spending.FIRST else self._proven(curve)
        self.alarms += new
        return new

    def _proven(self, curve: Curve) -> list[Alarm]:
        """Findings that hold in every one of the first rows."""
        found = report(self._case(curve), limits=self._limits)
        proven = {name for name in found.harms if name in spending.PROVEN}
        if not _solved(curve):  # a hard start is silent, too
            proven.discard("advantage_degeneracy")
        self._unproven |= {*spending.PROVEN} - proven
        return [self._alarm(found, name) for name in proven - self._unproven if not self._raised(name)]

    def _case(self, curve: Curve) -> Case:
        return Case(curve, self._group_size, least_gain=spending.STALLED)

    def _alarm(self, found: Report, name: str) -> Alarm:
        fired = [one for one in found.fired if one.verdict == name]
        best: Fact = max(fired, key=lambda one: one.score)
        onset = min(one.window[0] for one in fired)
        return Alarm(name, self.step, self.rows, onset, float(best.score), best.text)

    def _no_number(self) -> list[Alarm]:
        """Checked at every row: a run of non-finite rewards."""
        least = max(_NO_NUMBER, 2 * self._longest)
        if self._lost < least or self._raised("diverging"):
            return []
        text = f"the reward has not been finite for {self._lost} rows"
        return [Alarm("diverging", self.step, self.rows, self.step, self._lost / least, text)]

    def _raised(self, failure: str) -> bool:
        return any(one.failure == failure for one in self.alarms)

    def _look(self, curve: Curve) -> list[Alarm]:
        self._looks += 1
        held_out = 0 if curve.eval is None else curve.eval.step.size
        if held_out > self._held_out_size:
            self._held_out_looks, self._held_out_size = self._held_out_looks + 1, held_out
        errors, follow = spending.at_look(self._rate, self._looks, self._held_out_looks, curve.reward, held_out)
        limits = {"does_not_follow": follow} | self._limits
        found = self.report = report(self._case(curve), limits=limits, errors=errors)
        there = {*found.harms}
        if "collapsed" in there:  # there without the worst few of the last rewards, too: a dead reward server is none
            less = report(self._case(_without_lowest(curve, spending.LONE)), limits=limits, errors=errors)
            there -= {"collapsed"} - {*less.harms}
        if self._patience is None or self.rows < self._patience:
            there.discard("stalled")
        new = []
        self._since = {name: held for name, held in self._since.items() if name in there}
        for name in found.verdict:
            if name not in there:
                continue
            first, looks = self._since.get(name, (self.rows, 0))
            self._since[name] = (first, looks + 1)
            share = spending.HOLD.get(name, 0.0)
            if self.rows - first >= share * self.rows and (not share or looks) and not self._raised(name):
                new.append(self._alarm(found, name))
        return new

    def curve(self) -> Curve | None:
        """What is kept of the run as a curve, the reward on its block means; None before there is any reward."""
        reward = self._held.get("reward")
        if reward is None or not reward.size:
            return None
        series = {role: self._series(role) for role in self._held}
        own = series.pop("reward")
        return Curve(
            name="run",
            source="live",
            format="live",
            framework=self._keys.framework,
            reward_series=own,
            scale=self._scale or RewardScale.estimated(own.value),
            eval=series.pop("eval", None),
            series={role: one for role, one in series.items() if one.step.size},
            gradient_lost=np.array(self._gradient_lost),
        )

    def _series(self, role: str) -> Series:
        held = self._held[role]
        return Series(held.step, held.value, self._keys.of_role[role])

    @property
    def verdict(self) -> tuple[str, ...]:
        """The alarms that stand; empty where there are none."""
        return tuple(dict.fromkeys(one.failure for one in self.alarms))

    @property
    def scores(self) -> dict[str, float]:
        """Verdict -> score at the last look, 1 and more: beyond its limit; what could not be judged is left out."""
        return {} if self.report is None else self.report.scores


def _solved(curve: Curve) -> bool:
    """Whether every reward so far is the largest there can be."""
    return curve.scale.high == 1 and bool(np.all(curve.reward >= 1))


def _without_lowest(curve: Curve, count: int) -> Curve:
    """The curve without so many lowest rewards of its last tenth (5 to 20 points)."""
    reward = curve.reward_series
    first = reward.value.size - int(np.clip(reward.value.size // 10, 5, 20))
    kept = np.delete(np.arange(reward.value.size), first + np.argsort(reward.value[first:], kind="stable")[:count])
    return replace(curve, reward_series=replace(reward, step=reward.step[kept], value=reward.value[kept]))


def _numbers(values: Sequence[Any] | Floats) -> Floats | None:
    """Values [n] as an array; None unless all are plain finite numbers."""
    if not isinstance(values, np.ndarray) and not {*map(type, values)} <= {float, int}:
        return None
    try:
        made = np.asarray(values, float)
    except OverflowError:
        return None
    return made if np.isfinite(made).all() else None
