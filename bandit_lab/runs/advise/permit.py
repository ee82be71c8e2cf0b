"""How far a setting may move, given how much is known: a curve, a measured stiffness, or nothing.

A reward curve answers with the time of its *softest* mode. Stability is lost in the *stiffest*, and the stiffness of a
network rises while it trains. So a curve alone bounds the stiffness from below, and a margin read from it is an upper
bound. And one curve is one reading: equal runs answer at different speeds. What is permitted from a curve is therefore

    min(law, exact) / max(safety, SPREAD * SCATTER),

the margin at the stiff end of the delay's interval, and never more than `REACH` times what was run. With a measured
stiffness it is the exact margin over the safety. Without evidence, and after a run that failed, it is what was run.

The two factors multiply. The spread is a ratio between two modes of one run, all of it on one side. The scatter is that
of one run about its equals. The spread was read off single runs, so that it holds some scatter too: the product errs on
the careful side.

Group size is a temperature, not a stiffness: G -> G' changes the heat of a run as the learning rate would times G/G'.
With Adam a larger group lowers the second moment, which acts as a learning rate up to sqrt(G'/G) times as large.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from bandit_lab import _checks
from bandit_lab.runs.advise.margins import StalenessLoop, largest_safe_interval, largest_safe_kappa

SPREAD = 3.5
"""Stiffest mode over the one that the curve shows, as real runs of one origin had it: see `spread_needed`.

Calibrated on the families of ShibukiZero/assignment5-alignment (GRPO on Qwen2.5-Math-1.5B, MATH, learning rate or
updates per batch changed): from 4 updates per batch, law's margin 6.9, a run with 8 collapsed, 6.9/(8/4) = 3.45. The
experiment `advice` computes it again from the logs and scores it on all other origins, which would have asked for 2.9.
"""
SCATTER = 4.5
"""Response time of one run over that of its equals, which 95 % of runs do not exceed, with 95 % confidence: see
`scatter_of_equals`.

From 30 runs of 6 repositories in 14 families of equal runs, 16 degrees of freedom: 4.15, rounded up to the next half.
Without the runs of any one repository it is 3.3 to 6.1. The experiment `advice` computes it again.
"""
COVERED, CONFIDENCE = 0.95, 0.95
"""Share of runs that `SCATTER` covers, and how sure that is."""
REACH = 4.0
"""How many times a setting that was run one curve is believed at most."""
DROP, DROP_SIGMAS = 0.1, 2.0
"""A reward has fallen if its last fifth is below its best fifth by this share of the rise and so many standard errors.

Chosen on the runs on which `SPREAD` is calibrated.
"""
Basis = Literal["measured stiffness", "response time", "no evidence", "ages not known", "failed run"]


@dataclass(frozen=True)
class Permit:
    """What may be run next: `factor` on the learning rate, and the largest `interval` [optimiser steps].

    `divisor` is what the margin was divided by, `basis` what it rests on, `reason` why it is not more.
    """

    factor: float
    interval: int
    basis: Basis
    reason: str
    divisor: float | None = None

    def group(self, size: int, other: int, adaptive: bool) -> bool:
        """Whether a run with groups of `size` permits groups of `other`."""
        heat = size / other if other < size else math.sqrt(other / size) if adaptive else 1.0
        return other == size or (heat <= max(self.factor, 1.0) and self.basis != "ages not known")


def keep(loop: StalenessLoop, basis: Basis, reason: str) -> Permit:
    """What was run, and no more."""
    return Permit(1.0, loop.interval, basis, reason)


def after_failure(loop: StalenessLoop, reason: str) -> Permit:
    """Half of what was run: a rule of thumb."""
    least = 0 if loop.model == "lag" else 1
    return Permit(0.5, max(loop.interval // 2, least), "failed run", reason)


def from_curve(
    loop: StalenessLoop, kappa: float, safety: float, spread: float = SPREAD, scatter: float = SCATTER
) -> Permit:
    """What a curve permits whose stiff end is `kappa`; a run that went well permits at least itself.

    Where even the softest mode is closer to the exact threshold than the safety, it permits less.

    Raises ValueError for kappa or safety <= 0, spread or scatter < 1.
    """
    for name, factor in (("spread", spread), ("scatter", scatter)):
        _checks.require(factor >= 1, name, "a number >= 1", factor)
    divisor = max(_checks.positive("safety", safety), spread * scatter)
    softest = from_stiffness(loop, kappa, safety)
    if softest.factor < 1:
        return Permit(
            softest.factor, min(softest.interval, loop.interval), "response time",
            "even the softest mode, which is all that a curve shows, is nearer to its threshold than the safety factor",
            safety,
        )  # fmt: skip
    rates, intervals = largest_safe_kappa(loop, divisor), largest_safe_interval(loop, kappa, divisor)
    factor = _smaller(rates.law if rates.law is not None else math.inf, rates.exact) / kappa  # no lag: no law
    interval = _smaller(intervals.law or 0.0, intervals.exact)
    most = REACH * max(loop.interval, 1)
    reason = "the curve shows the softest mode of one run; stiffer modes and the scatter of equal runs are allowed for"
    if factor >= REACH:
        reason = f"no curve is believed beyond {REACH:g} times what was run"
    return Permit(
        min(max(factor, 1.0), REACH),
        int(min(max(interval, loop.interval), most)),
        "response time", reason, divisor,
    )  # fmt: skip


def from_stiffness(loop: StalenessLoop, kappa: float, safety: float) -> Permit:
    """What a measured largest stiffness permits (kappa: learning rate times it): the exact threshold over the safety.

    Raises ValueError for kappa or safety <= 0.
    """
    factor = (largest_safe_kappa(loop, safety).exact or 0.0) / _checks.positive("kappa", kappa)
    interval = largest_safe_interval(loop, kappa, safety).exact
    least = 0 if loop.model == "lag" else 1
    reason = f"the exact threshold over the safety factor {safety:g}"
    return Permit(factor, least if interval is None else int(interval), "measured stiffness", reason, safety)


def _smaller(law: float, exact: float | None) -> float:
    """The law or the exact theory, whichever permits less; 0 where not even the smallest setting is safe."""
    return 0.0 if exact is None else min(law, exact)


def spread_needed(margin: float, change: float) -> float:
    """The smallest spread that forbids a `change` (product of learning rate and interval, over the run's own) to a run
    whose curve has this law's `margin`: margin/change. Over changes that collapsed, the largest is the spread to use.
    """
    return _checks.positive("margin", margin) / _checks.positive("change", change)


def scatter_of_equals(families: Sequence[Sequence[float]]) -> float:
    """The factor by which a run's response time exceeds the geometric mean of its equals in at most 5 % of runs, with
    95 % confidence: a one-sided tolerance bound for log-normal readings, their variance pooled over the families.

    `families` hold the readings [optimiser steps, > 0] of runs that are alike. Raises ValueError unless one has two.
    """
    logs = [np.log([_checks.positive("reading", value) for value in family]) for family in families if len(family) > 1]
    freedom = sum(one.size - 1 for one in logs)
    _checks.require(freedom > 0, "families", "two readings of one family", freedom)
    pooled = sum(float(((one - one.mean()) ** 2).sum()) for one in logs)
    return math.exp(float(norm.ppf(COVERED)) * math.sqrt(pooled / float(chi2.ppf(1 - CONFIDENCE, freedom))))


def has_fallen(reward: NDArray[np.float64], noise: float) -> bool:
    """Whether the rewards [n] end lower than they were, by more than `noise` (std of one reward) explains."""
    if reward.size < 20:
        return False
    width = reward.size // 5
    mean = np.convolve(reward, np.ones(width) / width, "valid")
    drop, rise = mean.max() - mean[-1], mean.max() - mean[0]
    return bool(drop > DROP * rise and drop > DROP_SIGMAS * noise * np.sqrt(2 / width))
