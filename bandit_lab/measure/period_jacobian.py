"""Floquet multipliers of the real update: eigenvalues of the Jacobian of one whole period at its fixed point.

Nothing is assumed of the bandit, the advantage, the estimator, the staleness or the optimiser: the update itself is
differentiated, everything that it remembers included. What cannot have multipliers gets a reason instead: no fixed
point, a second moment without noise or without a stationary value, an update with a kink.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bandit_lab import _checks
from bandit_lab._numerics import dominant, ordered
from bandit_lab._root import AT_ONCE, first_beyond
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.block import AT_REST, LinearisedBlock, make_block, stack
from bandit_lab.measure.frozen_moment import FAR

Kind = Literal["flip", "neimark_sacker", "fold"]
_REAL = 1e-8
_POINTS_PER_DECADE = 48


@dataclass(frozen=True)
class Floquet:
    """Multipliers of one setting, or the reason why there are none (then arrays are empty and numbers NaN).

    multipliers: [q] complex, per period, largest modulus first. period: steps of one period. theta: [D] fixed point of
    the mean update. second_moment: frozen leaves (per parameter, gradient squared), `moment_source` exact or sampled.
    """

    multipliers: np.ndarray
    period: int
    theta: np.ndarray | None
    second_moment: tuple[np.ndarray, ...]
    moment_source: str | None
    moment_error: float
    reason: str | None

    @property
    def radius(self) -> float:
        """Largest modulus per period; stable below 1."""
        return float(abs(self.multipliers[0])) if len(self.multipliers) else math.nan

    @property
    def growth(self) -> float:
        """log(radius) per step."""
        return math.log(self.radius) / self.period if self.radius > 0 else (-math.inf if self.radius == 0 else math.nan)

    @property
    def cycle(self) -> float:
        """Steps of one oscillation of the dominant mode: 2 pi period/|angle|, infinite if it does not oscillate.

        Of modes that decay equally fast it is the one that turns fastest.
        """
        angles = np.abs(np.angle(self.multipliers[dominant(self.multipliers)]))
        angle = float(angles.max()) if len(angles) else math.nan
        return 2 * math.pi * self.period / angle if angle > _REAL else (math.inf if angle == angle else math.nan)


def _kind_of(multiplier: complex) -> Kind:
    """`flip` (real, negative), `fold` (real, positive) or `neimark_sacker` (a complex pair)."""
    if abs(multiplier.imag) > _REAL * abs(multiplier):
        return "neimark_sacker"
    return "flip" if multiplier.real < 0 else "fold"


def floquet(
    learner: Learner, dynamics: str, hyper: Hyper, *, count: int = FAR, seed: int = 0, second_moment: Any = None
) -> Floquet:
    """Floquet multipliers of the mean update of `dynamics` (`sampled`: of its exact mean) at scalar settings.

    Args:
      count: number of updates at which counters stand (bias corrections off, schedules at their last value; a smaller
        count freezes a schedule there). seed: for second moments that have to be sampled. second_moment: what to freeze
        instead of the stationary ones at the fixed point. Needs float64.

    Raises:
      ValueError: what the dynamics raise for this learner.
    """
    block, reason = make_block(learner, dynamics, hyper, count=count, seed=seed, second_moment=second_moment)
    if block is None:
        return Floquet(np.empty(0, complex), 0, None, (), None, math.nan, reason)
    values = ordered(block.jacobians(stack(block.hyper, learning_rate=np.array([hyper.learning_rate], float)))[1][0])
    moment = block.moment
    return Floquet(
        values,
        block.period,
        block.theta,
        tuple(np.asarray(x) for x in block.second_moment),
        moment.source if moment else None,
        moment.relative_error if moment else 0.0,
        None,
    )


@dataclass(frozen=True)
class FloquetThreshold:
    """First loss of stability: learning rate, kind and multiplier there, or None and why."""

    learning_rate: float | None
    kind: Kind | None
    multiplier: complex | None
    reason: str | None


class _Scan:
    """Multipliers as a function of the learning rate, with the fixed point solved again only where it moves."""

    def __init__(self, block: LinearisedBlock, again: Any):
        self.block, self.again = block, again

    def __call__(self, rates: np.ndarray) -> np.ndarray:
        """Largest multipliers [H] at learning rates [H], complex."""
        residual, jacobians = self.block.jacobians(stack(self.block.hyper, learning_rate=rates))
        rest = residual <= 10 * AT_REST * (1 + np.max(np.abs(self.block.x))) * np.maximum(
            1, np.abs(jacobians).max((1, 2))
        )
        top = ordered(jacobians)[:, 0]
        for i in np.flatnonzero(~rest):
            block, _ = self.again(rates[i])
            if block is None:
                top[i] = np.nan
                continue
            top[i] = ordered(block.jacobians(stack(self.block.hyper, learning_rate=rates[i : i + 1]))[1][0])[0]
        return top


def _fastest_rate(block: LinearisedBlock) -> float:
    """Fastest relaxation per step and unit learning rate: max |1 - z|/(eta period) over the multipliers that go to 1.

    At small learning rates neither staleness nor momentum matters to it, save for a factor 1/(1 - mu).
    """
    rates = np.geomspace(1e-12, 1e3, AT_ONCE)
    values = ordered(block.jacobians(stack(block.hyper, learning_rate=rates))[1])
    slow = np.sort(np.where(np.isfinite(values), np.abs(values - 1), np.inf), axis=1)[:, : block.directions]
    small = np.flatnonzero(slow[:, -1] < 1e-3 * (1 - float(block.hyper.momentum)))
    return float(slow[small[-1], -1] / (rates[small[-1]] * block.period)) if len(small) else math.nan


def floquet_threshold(
    learner: Learner,
    dynamics: str,
    momentum: float,
    refresh_interval: float,
    kl_weight: float,
    *,
    low: float | None = None,
    high: float | None = None,
    count: int = FAR,
    seed: int = 0,
    second_moment: Any = None,
) -> FloquetThreshold:
    """Smallest learning rate at which the spectral radius of a period reaches 1: a scan from below, then a root.

    low, high: where to scan (default: from far below to far above the on-policy time scale, 48 points per decade;
    maxima below 1 are looked at closer). Other arguments as in `floquet`. Needs float64.
    Raises ValueError for an interval that the staleness model cannot have, momentum outside [0, 1), low >= high.
    """
    interval = _checks.non_negative("refresh_interval", refresh_interval)
    if learner.staleness.whole_interval:
        interval = _checks.integer("refresh_interval", refresh_interval, learner.staleness.smallest_interval)
    options = {"count": count, "seed": seed, "second_moment": second_moment}
    hyper = Hyper(low or 1e-3, _checks.momentum("momentum", momentum), interval, kl_weight)
    block, reason = make_block(learner, dynamics, hyper, **options)
    if block is None:
        return FloquetThreshold(None, None, None, reason)
    if low is None or high is None:
        fastest = _fastest_rate(block)
        if not fastest > 0:
            return FloquetThreshold(None, None, None, "the mean update does not respond to its parameters")
        low = low if low is not None else 0.02 / (fastest * (interval + 1))
        high = high if high is not None else 4e3 / (fastest * (1 - momentum))
    _checks.require(0 < low < high, "low", f"a learning rate in (0, {high:g})", low)
    scan = _Scan(block, lambda rate: make_block(learner, dynamics, hyper._replace(learning_rate=rate), **options))
    grid = np.geomspace(low, high, max(2, math.ceil(_POINTS_PER_DECADE * math.log10(high / low))))
    crossing = first_beyond(scan, grid)
    if crossing is not None:
        rate, top = crossing
        return FloquetThreshold(rate, _kind_of(top), top, None if rate else f"unstable at {grid[0]:.3g} already")
    return FloquetThreshold(None, None, None, f"stable up to learning rate {grid[-1]:.6g}, the end of the scan")
