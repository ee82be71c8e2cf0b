"""The monitor of one run: rows come one by one, looks come on a schedule, an alarm comes once per failure."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from grpo_clinic import _checks
from grpo_clinic.monitor import spending
from grpo_clinic.monitor.history import ROOM, History
from grpo_clinic.readers import aliases, limits, scalars
from grpo_clinic.readers.record import COLUMNS, Curve, RewardScale
from grpo_clinic.readers.which import looks_like_evaluation, match_key, reward_guesses
from grpo_clinic.report import Report, report
from grpo_clinic.rules import Case, rules

_NO_NUMBER = 3
"""Rows without a number, one behind the other, that mean divergence."""
_GRADIENTS = 64
"""Steps without a gradient that are remembered: more of them say nothing more."""


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

    Example:
        >>> monitor = Monitor()
        >>> [alarm.failure for step in range(5) for alarm in monitor.update(step, reward=float("nan"))]
        ['diverging']
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
        self._asked = {"reward": reward_key, "eval": eval_key}
        self._keys: dict[str, str] = {}
        """Role -> name in the log: the one that first had it."""
        self._seen: set[str] = set()
        self._held: dict[str, History] = {}
        self._since: dict[str, tuple[int, int]] = {}
        self._lost = self._longest = self._blind = 0
        self._gradient_lost: list[float] = []
        self._looks = self._held_out_looks = self._held_out_size = 0
        self._next = 1
        self._unproven: set[str] = set()
        self.rows = self.restarts = 0
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
        """`update` for names that are no Python names. Raises ValueError for a step that is no number."""
        step = float(step)
        _checks.require(math.isfinite(step), "step", "a finite number", step)
        if step < self.step:
            self._restart(step)
        self.step = step
        if new := [key for key in metrics if key not in self._seen]:
            self._look_up(new)
        for role, key in self._keys.items():
            value = scalars.parse(metrics[key]) if key in metrics else None
            if value is None or (role == "importance_ratio" and value == 0):  # a ratio of 0 is none
                continue
            there = math.isfinite(value)
            if role == "reward":
                self.rows += 1
                self._longest = max(self._longest, self._lost) if there else self._longest
                self._lost = 0 if there else self._lost + 1
            if role == "grad_norm":  # the first steps at the end without a norm that is a number
                self._gradient_lost = [] if there else [*self._gradient_lost, step][:_GRADIENTS]
            if there:
                self._held.setdefault(role, History(self._room)).add(step, value)
        if not self.rows:
            self._blind += 1
            if self._blind == spending.FIRST:  # nothing would ever be judged
                names = ", ".join(list(metrics)[:8]) or "none"
                problem = f"{self._blind} updates without a reward that is a number: name it with reward_key="
                warnings.warn(f"Monitor: {problem}, of {names}", stacklevel=2)
        return self._judge() if self._keys.get("reward") in metrics else []

    def _look_up(self, new: list[str]) -> None:
        """Names that turn up: which of them is what, by the alias table."""
        if len(self._seen) >= limits.MAX_KEYS:
            return
        self._seen.update(new[: limits.MAX_KEYS])
        self._framework = aliases.framework_of(list(self._seen))
        for role in ("reward", "eval", *COLUMNS):
            if role in self._keys:
                continue
            if wanted := self._asked.get(role):
                metric = match_key(wanted, new)
            else:
                taken = self._keys.get("reward")
                pool = [key for key in new if looks_like_evaluation(key) == (role == "eval") and key != taken]
                ranked = [key for key, _ in aliases.candidates(role, pool, self._framework)]
                metric = next(iter(ranked or (reward_guesses(pool) if role == "reward" else [])), None)
            if metric is not None:
                self._keys[role] = metric

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
        new = []
        least = max(_NO_NUMBER, 2 * self._longest)
        if self._lost >= least and not self._raised("diverging"):  # no statistics here, hence at every row
            text = f"the reward is not finite since {self._lost} rows"
            new.append(Alarm("diverging", self.step, self.rows, self.step, self._lost / least, text))
        if self.rows >= self._next and (curve := self.curve()) is not None:
            self._next = max(self.rows + 1, math.ceil(self.rows * spending.GROWTH))
            new += self._look(curve) if curve.reward.size >= spending.FIRST else self._proven(curve)
        self.alarms += new
        return new

    def _proven(self, curve: Curve) -> list[Alarm]:
        """Findings of the first rows: a level that is beyond its limit in every one of them."""
        diagnosis = self._report(curve, self._limits)
        proven = {name for name in diagnosis.harms if name in spending.PROVEN}
        if not (curve.scale.high == 1 and np.all(curve.reward >= 1)):  # a hard start is silent, too
            proven.discard("advantage_degeneracy")
        self._unproven |= {*spending.PROVEN} - proven
        return [self._alarm(diagnosis, name) for name in proven - self._unproven if not self._raised(name)]

    def _report(self, curve: Curve, limits: Mapping[str, float], errors: Mapping[str, float] | None = None) -> Report:
        return report(Case(curve, self._group_size, least_gain=spending.STALLED), limits=limits, errors=errors)

    def _alarm(self, diagnosis: Report, name: str) -> Alarm:
        fired = [one for one in diagnosis.fired if one.verdict == name]
        best = max(fired, key=lambda one: one.score)
        onset = min(one.window[0] for one in fired)
        return Alarm(name, self.step, self.rows, onset, float(best.score), best.text)

    def _raised(self, failure: str) -> bool:
        return any(one.failure == failure for one in self.alarms)

    def _look(self, curve: Curve) -> list[Alarm]:
        self._looks += 1
        held_out = 0 if curve.eval is None else curve.eval.step.size
        if held_out > self._held_out_size:
            self._held_out_looks, self._held_out_size = self._held_out_looks + 1, held_out
        errors = spending.at_look(self._rate, self._looks, self._held_out_looks, curve.reward, held_out)
        diagnosis = self.report = self._report(curve, self._limits, errors)
        there = {*diagnosis.harms}
        if "collapsed" in there:  # there without the worst few of the last rewards, too: a dead reward server is none
            there -= {"collapsed"} - {*self._report(_without_lowest(curve, spending.LONE), self._limits, errors).harms}
        if self._patience is None or self.rows < self._patience:
            there.discard("stalled")
        new = []
        self._since = {name: held for name, held in self._since.items() if name in there}
        for name in (name for name in diagnosis.verdict if name in there):
            first, looks = self._since.get(name, (self.rows, 0))
            self._since[name] = (first, looks + 1)
            share = spending.HOLD.get(name, 0.0)
            if self.rows - first >= share * self.rows and (not share or looks) and not self._raised(name):
                new.append(self._alarm(diagnosis, name))
        return new

    def curve(self) -> Curve | None:
        """The stored run as a curve, the reward on its block means; None before there is any reward."""
        if "reward" not in self._held or not self._held["reward"].size:
            return None
        series = {role: held.series(self._keys[role]) for role, held in self._held.items()}
        own = series.pop("reward")
        return Curve(
            name="run",
            source="live",
            format="live",
            framework=self._framework,
            reward_series=own,
            scale=self._scale or RewardScale.estimated(own.value),
            eval=series.pop("eval", None),
            series={role: one for role, one in series.items() if one.step.size},
            gradient_lost=np.array(self._gradient_lost),
        )

    @property
    def verdict(self) -> tuple[str, ...]:
        """The alarms that stand; empty where there are none."""
        return tuple(dict.fromkeys(one.failure for one in self.alarms))

    @property
    def scores(self) -> dict[str, float]:
        """Verdict -> score at the last look, 1 and more: beyond its limit; what could not be judged is left out."""
        return {} if self.report is None else self.report.scores


def _without_lowest(curve: Curve, count: int) -> Curve:
    """The curve without so many lowest rewards of its last tenth (5 to 20 points)."""
    reward = curve.reward_series
    first = reward.value.size - int(np.clip(reward.value.size // 10, 5, 20))
    rows = np.delete(np.arange(reward.value.size), first + np.argsort(reward.value[first:], kind="stable")[:count])
    return replace(curve, reward_series=replace(reward, step=reward.step[rows], value=reward.value[rows]))
