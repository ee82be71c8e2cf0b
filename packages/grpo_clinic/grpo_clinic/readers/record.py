"""What every reader returns: one training run as named series, each with the place it came from.

Steps are not the same thing in every trainer. TRL counts *optimiser steps*, verl counts *rollout cycles*; with
refresh_interval optimiser steps per cycle the two differ by that factor, and so does every fitted time constant.
A curve therefore carries its unit and converts only when it is told the refresh interval.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from grpo_clinic import _checks

Floats = NDArray[np.float64]
StepUnit = Literal["optimiser step", "rollout cycle", "unknown"]
STEP_UNITS: tuple[StepUnit, ...] = ("optimiser step", "rollout cycle", "unknown")

SIGMA_OF_MAD = 1.4826
"""Standard deviation of a normal over its median absolute deviation."""
COLUMNS = (
    "entropy", "kl", "grad_norm", "clip_frac", "zero_std_frac", "truncation", "length", "lr", "reward_std",
    "reward_min", "reward_max", "engine_kl", "engine_k1", "engine_abs", "importance_ratio", "ess", "age", "age_max",
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """One logged quantity: `step` [n] strictly increasing, `value` [n] finite.

    `key` as it stands in the log, `notes` on what was done to it.
    """

    step: Floats
    value: Floats
    key: str
    notes: tuple[str, ...] = ()

    def at(self, step: Floats) -> Floats:
        """Values on the given steps [m], NaN where this quantity was not logged."""
        if self.step.size == 0:
            return np.full(len(step), np.nan)
        place = np.minimum(np.searchsorted(self.step, step), self.step.size - 1)
        return np.where(self.step[place] == step, self.value[place], np.nan)


_SHARE = re.compile(r"accuracy|ndcg|pass@|(correct|success|solve|pass)[_/ ]?rate", re.IGNORECASE)
"""Keys of rewards that are shares, of answers or of tests, and cannot leave 0 to 1."""
_FAR = 1000
"""Rewards that lie further above zero than this many times their range do not have zero as their lower bound."""


@dataclass(frozen=True)
class RewardScale:
    """Smallest and largest reward possible [reward]: given by the user, or only estimated from what was seen."""

    low: float
    high: float
    given: bool

    @classmethod
    def estimated(cls, reward: Floats, *keys: str) -> "RewardScale":
        """From the rewards [n]: 0 to 1 if all lie there and one is above 0.2, or a key is that of a share; else what
        they span."""
        low, high = float(reward.min()), float(reward.max())
        share = high > 0.2 or any(_SHARE.search(key) for key in keys)
        return cls(0.0, 1.0, False) if low >= 0 and high <= 1 and share else cls(low, high, False)

    @property
    def bottom(self) -> float:
        """The reward from which a height counts: the lowest one if it was given, else zero unless that is far away."""
        near = abs(self.low) <= _FAR * (self.high - self.low)
        return 0.0 if near and not self.given else self.low

    @property
    def text(self) -> str:
        """A remark on how far the two numbers can be trusted."""
        origin = "given" if self.given else "estimated from the log; the true range may be wider"
        return f"reward scale {self.low:g} to {self.high:g} ({origin})"


@dataclass(frozen=True)
class Curve:
    """One run: the reward against the step, with whatever else the log held, normalised by name.

    `reward_series` is empty in a log without a reward (`ReadOptions.needs_reward`). `series` maps a name of `COLUMNS`
    to its series on its *own* steps; `column` puts one on the reward's steps. `parts` are further reward keys of the
    same run (accuracy, format, ...). `nonfinite_steps` [m] are the steps whose reward was NaN or infinite and was left
    out, `gradient_lost` [k] those whose gradient norm was. `unread` are all numeric columns that were taken for
    nothing, `others` their series in a log of moderate size. `empty` are names of `COLUMNS` that were logged without
    any number. `counted` are the rewards before neighbours were averaged, 0 where none were. `restarted` says that it
    is one of several runs that came one after the other in a file.
    """

    name: str
    source: str
    format: str
    framework: str
    reward_series: Series
    scale: RewardScale
    step_unit: StepUnit = "unknown"
    series: Mapping[str, Series] = field(default_factory=dict)
    parts: Mapping[str, Series] = field(default_factory=dict)
    eval: Series | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    reward_is_eval: bool = False
    empty: tuple[str, ...] = ()
    counted: int = 0
    nonfinite_steps: Floats = field(default_factory=lambda: np.zeros(0))
    gradient_lost: Floats = field(default_factory=lambda: np.zeros(0))
    unread: tuple[str, ...] = ()
    others: Mapping[str, Series] = field(default_factory=dict)
    restarted: bool = False
    recognised: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def step(self) -> Floats:
        """Steps of the reward [n], strictly increasing, in `step_unit`."""
        return self.reward_series.step

    @property
    def reward(self) -> Floats:
        """Mean reward at each step [n]."""
        return self.reward_series.value

    @property
    def leading(self) -> Series:
        """The series that gives the run's steps: its reward, or the first quantity of a log without one."""
        return self.reward_series if self.reward.size else next(iter(self.series.values()))

    @property
    def log_every(self) -> float:
        """Median distance of two logged rewards [steps]; 1 for a single point."""
        return float(np.median(np.diff(self.step))) if self.step.size > 1 else 1.0

    def column(self, name: str) -> Floats | None:
        """A named column [n] on the reward's steps, NaN where it was not logged; None if the log lacks it.

        Raises ValueError if `name` is not one of `COLUMNS`.
        """
        _checks.choice("column", name, COLUMNS)
        series = self.series.get(name)
        return None if series is None else series.at(self.step)

    def in_unit(self, unit: str, refresh_interval: float | None = None) -> "Curve":
        """The same run with steps counted in `unit`, one rollout cycle being `refresh_interval` optimiser steps.

        Raises ValueError if the unit of the log is unknown. Also if a conversion needs the refresh interval (optimiser
        steps per refresh, >= 1) and none is given.
        """
        _checks.choice("step_unit", unit, STEP_UNITS[:2])
        if unit == self.step_unit:
            return self
        _checks.require(self.step_unit != "unknown", "step_unit", "the unit that this log counts steps in", "unknown")
        _checks.require(refresh_interval is not None, "refresh_interval", f"a number to convert to {unit}s", None)
        interval = _checks.positive("refresh_interval", refresh_interval)
        factor = interval if unit == "optimiser step" else 1 / interval

        def scaled(series: Series) -> Series:
            note = f"steps converted from {self.step_unit}s to {unit}s with refresh interval {interval:g}"
            return replace(series, step=series.step * factor, notes=(*series.notes, note))

        return replace(
            self,
            reward_series=scaled(self.reward_series),
            series={name: scaled(series) for name, series in self.series.items()},
            parts={name: scaled(series) for name, series in self.parts.items()},
            eval=None if self.eval is None else scaled(self.eval),
            others={name: scaled(series) for name, series in self.others.items()},
            nonfinite_steps=self.nonfinite_steps * factor,
            gradient_lost=self.gradient_lost * factor,
            step_unit=cast(StepUnit, unit),
        )
