"""From a measured stiffness to what may be changed: the exact threshold of one mode at this trainer's staleness."""

import math
from dataclasses import dataclass

from bandit_lab import theory
from bandit_lab._checks import choice, require
from bandit_lab.integrations.probe import Stiffness

MOST = 1024
"""Largest number of updates per rollout batch that is looked at."""
SURE = 2.0
"""Standard errors that are added to K before anything more is permitted."""


@dataclass(frozen=True)
class Loop:
    """How a trainer updates: learning rate, momentum with its convention, and how stale its samples are.

    refresh_interval: updates N per rollout batch (`refresh`), or the lag. Adam is `ema` with beta_1; its second moment
    is in the stiffness.
    """

    learning_rate: float
    momentum: float = 0.0
    convention: str = "heavy_ball"
    model: str = "refresh"
    refresh_interval: int = 1

    def __post_init__(self) -> None:
        theory.as_convention(self.convention)
        choice("model", self.model, theory.MODELS)
        require(self.learning_rate >= 0, "learning_rate", "a number >= 0", self.learning_rate)


@dataclass(frozen=True)
class Margin:
    """Where a run stands. product: K eta N. threshold: K eta_c N, infinite where no learning rate is too large.

    used: product over threshold; unstable from 1. intervals: largest N up to which every N is stable at this learning
    rate, with K `SURE` standard errors higher; None: up to `MOST`. learning_rate: the largest at this N, likewise.
    """

    stiffness: Stiffness
    loop: Loop
    product: float
    threshold: float
    used: float
    intervals: int | None
    learning_rate: float

    def __str__(self) -> str:
        k = self.stiffness
        parts = f"{k.value:.4g} +- {k.standard_error:.2g} (fresh {k.fresh:.3g}, stale {k.stale:.3g})"
        cost = f"{k.passes:.0f} forward-backward passes over {k.groups} groups"
        if k.value <= 0:
            return f"stiffness K = {parts}: no restoring direction leads, so that no threshold is near; {cost}"
        end = "no threshold" if math.isinf(self.threshold) else f"threshold {self.threshold:.3g}, {self.used:.0%} used"
        return f"stiffness K = {parts}; K eta N = {self.product:.3g}, {end}; {self.advice}; {cost}"

    @property
    def advice(self) -> str:
        """What may be changed, one thing at a time."""
        loop = self.loop
        if self.used >= 1:
            return f"unstable: lower the learning rate to below {self.learning_rate:.3g}"
        if self.learning_rate <= loop.learning_rate:
            return f"within {SURE:g} standard errors of the threshold: raise neither N nor the learning rate"
        if self.intervals is None:
            name = f"you may raise N beyond {MOST}"
        elif self.intervals > loop.refresh_interval:
            name = f"you may raise N to {self.intervals}"
        else:
            name = "do not raise N"
        rate = "any" if math.isinf(self.learning_rate) else f"{self.learning_rate:.3g}"
        return f"{name}, or the learning rate to {rate}"


def margin(stiffness: Stiffness, loop: Loop) -> Margin:
    """Distance from the exact threshold of the leading mode, its fresh and stale part as measured.

    Fresh and stale stiffness are taken to share this mode. Raises ValueError for settings out of range.
    """
    value = stiffness.value
    interval = max(loop.refresh_interval, 1)
    product = value * loop.learning_rate * interval
    if value <= 0:
        return Margin(stiffness, loop, product, math.inf, 0.0, None, math.inf)
    edge = _largest_rate(stiffness, loop, 1.0)
    raised = 1 + SURE * stiffness.standard_error / value if math.isfinite(stiffness.standard_error) else math.inf
    sure = _largest_rate(stiffness, loop, raised) if math.isfinite(raised) else 0.0
    intervals: int | None = 0
    if math.isfinite(raised) and loop.learning_rate > 0:
        crossing = theory.first_unstable_refresh_interval(_mode(stiffness, loop, raised), loop.learning_rate, MOST)
        intervals = None if crossing.value is None else int(crossing.value) - 1
    elif loop.learning_rate == 0:
        intervals = None
    used = 0.0 if math.isinf(edge) else loop.learning_rate / edge
    return Margin(stiffness, loop, product, value * edge * interval, used, intervals, sure)


def _mode(stiffness: Stiffness, loop: Loop, raised: float) -> theory.LinearLoop:
    parts = stiffness.fresh * raised, stiffness.stale * raised
    return theory.LinearLoop(*parts, loop.momentum, loop.model, loop.convention)


def _largest_rate(stiffness: Stiffness, loop: Loop, raised: float) -> float:
    """First unstable learning rate; infinite where there is none."""
    found = theory.first_unstable_learning_rate(_mode(stiffness, loop, raised), loop.refresh_interval).value
    return math.inf if found is None else found
