"""The linear loop of one mode: momentum, and a gradient whose fresh part is of now and whose stale part is late.

With stiffness a (fresh) and s (stale) and learning rate eta, each update does v <- mu v + gain g and x <- x + eta v
(nesterov: x <- x + eta (mu v + g)), where g = -(a x + s y). y is x at the start of this block of N updates (`refresh`),
at the start of the block before (`pipeline`), or x of N updates ago (`lag`). gain is 1 - mu for `ema`, else 1. A run is
stable where every multiplier of the map of one block (`lag`: of one update) lies inside the unit circle.
Derived here; a test holds the thresholds against the closed forms of bandit_lab.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

CONVENTIONS = ("heavy_ball", "ema", "nesterov")
MODELS = ("refresh", "lag", "pipeline")
LONGEST = {"refresh": 1024, "lag": 64, "pipeline": 1024}
"""Largest interval that is looked at; the map of a lag has its size."""
_PER_DECADE = 48
"""Learning rates that are looked at: an unstable window narrower than a step between two of them is missed."""


class Mode(NamedTuple):
    """One mode: stiffness by the current and by the acting policy [1 / learning rate], and how it is updated."""

    fresh: float
    stale: float
    momentum: float = 0.0
    model: str = "refresh"
    convention: str = "heavy_ball"

    def step(self, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matrix [..., 2, 2] of one update of (x, eta v), and what y adds to it [..., 2]."""
        mu = self.momentum
        push = rate * (1 - mu if self.convention == "ema" else 1.0)
        look = 1 + mu if self.convention == "nesterov" else 1.0
        carried = mu * mu if self.convention == "nesterov" else mu
        force = np.stack([-look * push, -push], axis=-1)
        free = np.broadcast_to(np.array([[1.0, carried], [0.0, mu]]), (*force.shape, 2)).copy()
        free[..., 0] += self.fresh * force
        return free, self.stale * force

    def block(self, rate: np.ndarray, interval: int) -> np.ndarray:
        """The map of one block [..., k, k] (`lag`: of one update) at these learning rates [...]."""
        one, forced = self.step(rate)
        if self.model == "lag":
            return _delayed(one, forced, interval)
        free, total = np.broadcast_to(np.eye(2), one.shape), np.zeros_like(forced)
        for _ in range(interval):
            free, total = one @ free, (one @ total[..., None])[..., 0] + forced
        return _assembled(free, total, self.model)


def _delayed(one: np.ndarray, forced: np.ndarray, lag: int) -> np.ndarray:
    """One update of (x, eta v, x of 1, ..., lag updates ago)."""
    matrix = np.zeros((*one.shape[:-2], lag + 2, lag + 2))
    matrix[..., :2, :2] = one
    matrix[..., :2, 0 if lag == 0 else lag + 1] += forced
    if lag:
        matrix[..., 2, 0] = 1.0
        matrix[..., range(3, lag + 2), range(2, lag + 1)] = 1.0
    return matrix


def _assembled(free: np.ndarray, total: np.ndarray, model: str) -> np.ndarray:
    """The map of (x, eta v), and for `pipeline` of the x where the block before began."""
    if model == "refresh":
        matrix = free.copy()
        matrix[..., 0] += total
        return matrix
    matrix = np.zeros((*free.shape[:-2], 3, 3))
    matrix[..., :2, :2], matrix[..., :2, 2], matrix[..., 2, 0] = free, total, 1.0
    return matrix


def _radius(maps: np.ndarray) -> np.ndarray:
    finite = np.isfinite(maps).all(axis=(-2, -1))
    values = np.abs(np.linalg.eigvals(np.where(finite[..., None, None], maps, 0.0))).max(axis=-1)
    return np.where(finite, values, np.inf)


def largest_rate(mode: Mode, interval: int) -> float:
    """The first learning rate from below that is unstable; infinite where none is.

    0 where the mode repels at every learning rate.
    """
    if mode.fresh + mode.stale <= 0:
        return 0.0
    unit = 1 / max(abs(mode.fresh), abs(mode.stale), mode.fresh + mode.stale)
    unit /= 1 - mode.momentum if mode.convention == "ema" else 1.0
    low, high = 0.02 * (1 - mode.momentum) * unit / (interval + 1), 2e3 * (1 + mode.momentum) * unit
    rates = np.geomspace(low, high, math.ceil(_PER_DECADE * math.log10(high / low)))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in np.array_split(rates, max(1, rates.size // 16)):
            unstable = np.flatnonzero(_radius(mode.block(part, interval)) >= 1)
            if unstable.size:
                place = int(np.searchsorted(rates, part[unstable[0]]))
                if place == 0:
                    return low
                ends = rates[place - 1], rates[place]
                return float(brentq(lambda rate: _excess(mode, rate, interval), *ends, xtol=1e-300, rtol=1e-14))
    return math.inf


def _excess(mode: Mode, rate: float, interval: int) -> float:
    return min(float(_radius(mode.block(np.array(rate), interval))), 1e3) - 1


def first_unstable_interval(mode: Mode, rate: float) -> int | None:
    """The smallest interval that is unstable at this learning rate; None up to `LONGEST`. `lag` begins with 0."""
    longest = LONGEST[mode.model]
    if mode.model == "lag":
        return next((lag for lag in range(longest + 1) if _excess(mode, rate, lag) >= 0), None)
    one, forced = mode.step(np.array(rate))
    free, total, maps = np.eye(2), np.zeros(2), []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(longest):
            free, total = one @ free, one @ total + forced
            maps.append(_assembled(free, total, mode.model))
        unstable = np.flatnonzero(_radius(np.stack(maps)) >= 1)
    return int(unstable[0]) + 1 if unstable.size else None
