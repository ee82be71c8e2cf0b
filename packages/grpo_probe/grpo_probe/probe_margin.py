"""From a measured stiffness to what may be changed: the exact threshold of one mode at this trainer's staleness."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grpo_clinic._checks import choice, require

from grpo_probe.loop import CONVENTIONS, LONGEST, MODELS, Mode, first_unstable_interval, largest_rate
from grpo_probe.stiffness import Stiffness

SURE = 2.0
"""Standard errors by which K may be off: added before anything more is permitted, taken away before it is unstable."""
KNOWN = 0.5
"""Share of K above which its error permits nothing, and forbids nothing."""
TIMES = 10.0
"""Share of the threshold from which it is told as a multiple."""


@dataclass(frozen=True)
class Loop:
    """The update rule of a trainer: learning rate, momentum with its convention, and how stale its samples are.

    refresh_interval: updates N per rollout batch (`refresh`), or the lag. Adam is `ema` with beta_1; its second moment
    is in the stiffness.
    """

    learning_rate: float
    momentum: float = 0.0
    convention: str = "heavy_ball"
    model: str = "refresh"
    refresh_interval: int = 1

    def __post_init__(self) -> None:
        choice("convention", self.convention, CONVENTIONS)
        choice("model", self.model, MODELS)
        require(self.learning_rate >= 0, "learning_rate", "a number >= 0", self.learning_rate)


@dataclass(frozen=True)
class Margin:
    """Where a run stands. product: K eta N. threshold: K eta_c N, infinite where no learning rate is too large.

    used: product over threshold, 1 at the edge. verdict: `stable`, `unstable`, `cannot tell` where K lies within `SURE`
    standard errors of the edge, or `no signal` where no group has a gradient. intervals: largest N up to which every N
    is stable at this learning rate, with K `SURE` standard errors higher; None: as far as is looked. learning_rate: the
    largest at this N, likewise.

    peak: the same at the end of a warm-up that goes on. clipped: norm to which the last gradient was clipped, 0 where
    it was not; the threshold is that of steps which are not.
    """

    stiffness: Stiffness
    loop: Loop
    product: float
    threshold: float
    used: float
    verdict: str
    intervals: int | None
    learning_rate: float
    peak: "Margin | None" = None
    clipped: float = 0.0

    def __str__(self) -> str:
        k = self.stiffness
        cost = f"{k.passes:.0f} forward-backward passes over {k.groups} groups"
        if self.verdict == "no signal":
            return f"no signal: none of {k.groups} groups has a gradient (equal rewards), so that nothing was measured"
        parts = f"{k.value:.4g} +- {k.standard_error:.2g} (fresh {k.fresh:.3g}, stale {k.stale:.3g})"
        if k.left_out > 0:
            parts += f" without the {k.left_out:.2g} of the parameters of which Adam's second moment has no history"
        if k.critical is not None:
            cost += f"; critical sharpness {k.critical:.3g}"
            if k.value <= 0:
                return f"along the update K = {parts}: nothing restores, so that no threshold is near along it; {cost}"
        elif k.value <= 0:
            return f"stiffness K = {parts}: no restoring direction leads, so that no threshold is near; {cost}"
        end = "no threshold" if math.isinf(self.threshold) else f"threshold {self.threshold:.3g}, {self._share} used"
        name = "stiffness" if k.critical is None else "along the update"
        return f"{name} K = {parts}; K eta N = {self.product:.3g}, {end}; {self.advice}{self.more}; {cost}"

    @property
    def more(self) -> str:
        """Notes beside the advice: a warm-up's peak, a clipped gradient."""
        more = ""
        if self.peak is not None:
            rate, verdict = self.peak.loop.learning_rate, self.peak.verdict
            more = f"; at the warm-up's peak of {rate:.3g}, {self.peak._share} used: {verdict}"
        if self.clipped:
            more += f"; the last gradient was clipped to norm {self.clipped:.3g}, which the threshold leaves out"
        return more

    @property
    def _share(self) -> str:
        return f"{self.used:.0%}" if self.used < TIMES else f"{self.used:.0f} times"

    @property
    def advice(self) -> str:
        """Changes that stay stable, one at a time."""
        loop = self.loop
        if self.verdict == "unstable":
            return f"unstable: lower the learning rate to below {self.learning_rate:.3g}"
        if self.verdict == "cannot tell":
            why = f"K is within {SURE:g} standard errors of the threshold"
            precise = self.stiffness.standard_error <= KNOWN * self.stiffness.value
            why = why if precise else "the error of K is above half of it, or not known"
            return f"cannot tell whether it is stable, for {why}: raise neither N nor the learning rate"
        if self.stiffness.critical is not None:
            return "stable along the update; another direction may be stiffer"
        rate = "any value" if math.isinf(self.learning_rate) else f"{self.learning_rate:.3g}"
        if self.intervals is not None and self.intervals <= loop.refresh_interval:
            return f"keep N; you may raise the learning rate to {rate}"
        reach = f"beyond {LONGEST[loop.model]}" if self.intervals is None else f"to {self.intervals}"
        return f"you may raise N {reach}, or the learning rate to {rate}"


def margin(stiffness: Stiffness, loop: Loop) -> Margin:
    """Distance from the exact threshold of the leading mode, its fresh and stale part as measured.

    Fresh and stale stiffness are taken to share this mode. Raises ValueError for settings out of range.
    """
    value, rate = stiffness.value, loop.learning_rate
    interval = max(loop.refresh_interval, 1)
    product = value * rate * interval
    silent = stiffness.silent == stiffness.groups
    if silent or value <= 0:
        return Margin(stiffness, loop, product, math.inf, 0.0, "no signal" if silent else "stable", None, math.inf)
    spread = SURE * stiffness.standard_error / value
    edge, lowest, highest = (_largest_rate(stiffness, loop, raised) for raised in (1.0, 1 + spread, 1 - spread))
    verdict = "stable" if rate < lowest else "unstable" if rate >= highest else "cannot tell"
    verdict = verdict if spread <= SURE * KNOWN else "cannot tell"
    intervals: int | None = None
    if rate > 0:
        intervals = 0
        if math.isfinite(spread):
            crossing = first_unstable_interval(_mode(stiffness, loop, 1 + spread), rate)
            intervals = None if crossing is None else crossing - 1
    used = 0.0 if math.isinf(edge) else rate / edge
    return Margin(stiffness, loop, product, value * edge * interval, used, verdict, intervals, lowest)


def _mode(stiffness: Stiffness, loop: Loop, raised: float) -> Mode:
    return Mode(stiffness.fresh * raised, stiffness.stale * raised, loop.momentum, loop.model, loop.convention)


def _largest_rate(stiffness: Stiffness, loop: Loop, raised: float) -> float:
    """First unstable learning rate with K `raised` times as large; infinite where there is none."""
    if raised <= 0:
        return math.inf
    if math.isinf(raised):
        return 0.0
    return largest_rate(_mode(stiffness, loop, raised), loop.refresh_interval)


def hold_at(share: float = 0.8) -> Callable[[Any, Margin], str | None]:
    """For `TrlProbe(..., on_margin=hold_at(0.8))`: at most this share of the largest stable learning rate.

    After a measurement the whole schedule is scaled: down to `share` of the edge where it is above, and up again, never
    beyond what was asked for, where the edge has moved away. The edge is that of K itself, without its error. A
    checkpoint keeps the scale, for it is in the optimiser's and the scheduler's state.

    Raises ValueError for a share that is not above 0 and at most 1, and inside a step for a scheduler without
    `base_lrs` (ReduceLROnPlateau).
    """
    require(0 < share <= 1, "share", "a number above 0, at most 1", share)

    def hold(trainer: Any, margin: Margin) -> str | None:
        if margin.verdict == "no signal":
            return None
        groups, scheduler = trainer.optimizer.param_groups, trainer.lr_scheduler
        plain = getattr(scheduler, "scheduler", scheduler)  # accelerate's wrapper
        require(hasattr(plain, "base_lrs"), "lr_scheduler_type", "one with base_lrs", type(plain).__name__)
        before = plain.base_lrs[0] / groups[0]["initial_lr"]
        after = min(1.0, share * before / margin.used) if margin.used > 0 else 1.0
        for place, group in enumerate(groups):
            group["lr"] *= after / before
            plain.base_lrs[place] = after * group["initial_lr"]
        if math.isclose(after, before):  # the edge is found to rounding
            return None
        return f"learning rate cut to {groups[0]['lr']:.3g}, {after:.0%} of the schedule's, for {share:.0%} of the edge"

    return hold
