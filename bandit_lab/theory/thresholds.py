"""Stability thresholds of a linear response whose gradient is stale by whole blocks: exact, and to leading order.

Derived here. Let the gradient be taken d blocks behind the start of the current block of n steps:

    refresh (A): n = N, d = 0      lag (B): n = 1, d = N (0: on-policy)      pipeline (C): n = N, d = 1.

With m, S, a, P of one block (`conventions`) the multipliers per block are the roots of

    z^d (z - 1)(z - m) + kappa (P z - q) = 0,      q = P m - a S = -(a - N m)/(1 - mu),

kappa = learning rate * stiffness (`ema`: times 1 - mu). A root crosses the unit circle at exp(i w), 0 < w <= pi, when

    (d + 1/2) w + atan2(m sin w, 1 - m cos w) - atan2(q sin w, P - q cos w) = pi/2  (mod 2 pi),
    kappa = 2 sin(w/2) |1 - m e^{-iw}| / |P - q e^{-iw}|,

and the first crossing from below is the smallest such kappa; w = pi is a flip, every other a Neimark-Sacker pair. For
d = 0 this is closed: flip at 2 (1-mu)(1+m)/(N(1+m) - 2a), pair at (1-mu)(1-m)/(a - N m), the latter only if a > N m.
For n = 1, mu = 0 it is 2 sin(pi/(2(2d+1))) (Levin & May 1976).

A complex stiffness |l| e^{+-i phi}, which a drift that is no gradient can have, puts kappa = learning rate * |l| on the
same curve where the left side of the first line is pi/2 + phi or pi/2 - phi. Closed: d = 0, mu = 0 (A) 2 cos(phi)/N;
n = 1, mu = 0 (B) 2 sin((pi/2 - phi)/(2d+1)); n = 1, d = 0 the ellipse
2 (1+mu)(1-mu)^2 cos(phi)/((1-mu)^2 cos^2(phi) + (1+mu)^2 sin^2(phi)). As N (1 - mu) -> 0 every model has
kappa -> (1-mu)^2 cos(phi)/sin^2(phi): over the published law, with the real part as its stiffness, that is
N (1-mu)/tan^2(phi), without a lower bound. Such a multiplier is complex at every learning rate.

Oscillation sets in (phi = 0) at the smallest kappa at which the dominant multiplier is not real and positive. The
multiplier that starts at 1 moves down the real axis and meets the one that starts at m where
kappa(z) = z^d (1 - z)(z - m)/(P z - q) is largest between m and 1; no other root overtakes it before, since the
moduli of the factors on the circle through a real root are smallest (numerator) at that root. For d = 0 the maximum
is (1-mu)(1-m)/(sqrt N + sqrt a)^2, for n = 1 without look-ahead it is
z* = [d(1+mu) + sqrt(d^2(1+mu)^2 - 4(d^2-1) mu)]/(2(d+1)).
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy

from bandit_lab import _checks
from bandit_lab.theory.conventions import (
    CONVENTIONS,
    MODELS,
    BlockSums,
    Convention,
    Model,
    block_sums,
    check_loop,
    gain,
    mean_age,
)

Bifurcation = Literal["flip", "neimark_sacker"]


class Threshold(NamedTuple):
    """`kappa` = learning rate * stiffness at which stability is lost, and how: `flip` or `neimark_sacker`."""

    kappa: float
    bifurcation: Bifurcation


def leading_order(refresh_interval: float, momentum: float, convention: Convention = "heavy_ball") -> float:
    """The published law kappa N = 1 - mu (arXiv 2606.30789), as a value of kappa; `ema`: kappa N = 1.

    It does not know what the refresh interval means; infinite at N = 0. Nesterov as heavy ball: both conventions
    turn a constant gradient into the same total displacement.
    Raises ValueError for an unknown convention, momentum outside [0, 1), an interval < 0.
    """
    _checks.choice("convention", convention, CONVENTIONS)
    _checks.require(refresh_interval >= 0, "refresh_interval", "a number >= 0", refresh_interval)
    numerator = (1 - _checks.momentum("momentum", momentum)) / gain(momentum, convention)
    return numerator / refresh_interval if refresh_interval > 0 else math.inf


def mean_age_law(
    model: Model, refresh_interval: float, momentum: float, convention: Convention = "heavy_ball"
) -> float:
    """kappa = (1 - mu)/mean age, the limit of the exact threshold as (1 - mu) * mean age -> 0; infinite at age 0.

    For any distribution of ages (derived here: near z = 1 only the mean age enters the damping). Nesterov looks mu
    steps ahead: mean age - mu, infinite where that is not positive.
    """
    ahead = momentum if convention == "nesterov" else 0.0
    return leading_order(max(mean_age(model, refresh_interval) - ahead, 0.0), momentum, convention)


def _delay_form(model: Model, refresh_interval: int) -> tuple[int, int]:
    """(n, d): block length and number of blocks behind, see the module docstring; lag 0 is on-policy.

    Raises ValueError for an unknown model.
    """
    _checks.choice("staleness", model, MODELS)
    if model == "lag":
        return 1, refresh_interval
    return refresh_interval, 1 if model == "pipeline" else 0


def exact(
    model: Model, refresh_interval: int, momentum: float, convention: Convention = "heavy_ball", angle: float = 0.0
) -> Threshold:
    """First loss of stability from below, exactly: closed form for `refresh`, one-dimensional root otherwise.

    `refresh_interval` N >= 1 (`lag`: >= 0); kappa is dimensionless. angle: argument of the stiffness, radians in
    (-pi/2, pi/2); kappa is then learning rate * its modulus, and a root is taken for every model. Raises ValueError
    for settings out of range. Derived in this module.
    """
    check_loop(model, refresh_interval, momentum, convention)
    _checks.require(abs(angle) < math.pi / 2, "angle", "radians in (-pi/2, pi/2)", angle)
    length, behind = _delay_form(model, refresh_interval)
    sums = block_sums(length, momentum, convention)
    if behind == 0 and angle == 0:
        crossing = _closed_form(sums, length, momentum)
    else:
        crossing = _first_crossing(sums, length, behind, momentum, angle)
    return Threshold(crossing.kappa / gain(momentum, convention), crossing.bifurcation)


def oscillation_onset(
    model: Model, refresh_interval: int, momentum: float, convention: Convention = "heavy_ball"
) -> float:
    """Smallest kappa at which the dominant multiplier (per block; `lag`: per step) is not real and positive.

    At mu = 0 and model `refresh` the sign change at kappa N = 1. Raises ValueError for settings out of range.
    Derived in this module.
    """
    check_loop(model, refresh_interval, momentum, convention)
    length, behind = _delay_form(model, refresh_interval)
    sums = block_sums(length, momentum, convention)
    scale = gain(momentum, convention)
    if behind == 0:
        root = math.sqrt(length) + math.sqrt(sums.carry)
        return (1 - momentum) * (1 - sums.decay) / root**2 / scale
    gap = _collision(sums, length, behind, momentum)
    place = 1 - gap
    top = place**behind * gap * (place - sums.decay)
    return top / (sums.drift * place - _offset(sums, length, momentum)) / scale


def _offset(sums: BlockSums, length: int, momentum: float) -> float:
    return -(sums.carry - length * sums.decay) / (1 - momentum)


def _closed_form(sums: BlockSums, length: int, momentum: float) -> Threshold:
    m, free = sums.decay, 1 - momentum
    flip = 2 * free * (1 + m) / (length * (1 + m) - 2 * sums.carry)
    excess = sums.carry - length * m
    pair = free * (1 - m) / excess if length > 1 and excess > 1e-14 * length else math.inf
    return Threshold(flip, "flip") if flip <= pair else Threshold(pair, "neimark_sacker")


def _first_crossing(sums: BlockSums, length: int, behind: int, momentum: float, angle: float) -> Threshold:
    m, drift, offset = sums.decay, sums.drift, _offset(sums, length, momentum)

    def phase(w: np.ndarray | float) -> np.ndarray:
        sine, cosine = np.sin(w), np.cos(w)
        turn = (behind + 0.5) * np.asarray(w) - np.pi / 2
        return turn + np.arctan2(m * sine, 1 - m * cosine) - np.arctan2(offset * sine, drift - offset * cosine)

    def kappa(w: float) -> float:
        turn = np.exp(-1j * w)
        return float(2 * np.sin(w / 2) * abs(1 - m * turn) / abs(drift - offset * turn))

    grid = _angle_grid(behind)
    values = phase(grid)
    candidates = [Threshold(kappa(np.pi), "flip")] if behind % 2 == 0 and angle == 0 else []
    turns = 2 * np.pi * np.arange(int(np.floor((values.max() + abs(angle)) / (2 * np.pi))) + 1)
    for target in {float(side + turn) for side in (angle, -angle) for turn in turns}:
        shifted = values - target
        for i in np.flatnonzero((shifted[:-1] < 0) & (shifted[1:] >= 0) | (shifted[:-1] > 0) & (shifted[1:] <= 0)):
            w = scipy.optimize.brentq(
                lambda x, y=target: float(phase(x)) - y, grid[i], grid[i + 1], xtol=1e-15, rtol=1e-14
            )
            if w < np.pi * (1 - 1e-12) or angle != 0:
                candidates.append(Threshold(kappa(w), "neimark_sacker"))
    return min(candidates)


def _angle_grid(behind: int) -> np.ndarray:
    """Rising angles [A] in (0, pi], radians per map: the phase of a loop `behind` maps old turns by few degrees between
    two of them, and those near 0 are even in the logarithm."""
    near, even = np.geomspace(1e-9, 1e-2 / (behind + 1), 64), np.linspace(0, np.pi, 96 * (behind + 2))[1:]
    return np.unique(np.concatenate([near, even]))


def _collision(sums: BlockSums, length: int, behind: int, momentum: float) -> float:
    """1 - z of the first maximum of kappa(z) below z = 1."""
    m, drift, offset = sums.decay, sums.drift, _offset(sums, length, momentum)
    if m == 0 and offset == 0:
        return 1 / (behind + 1)

    def slope(gap: Any) -> Any:
        z = 1 - gap
        lower, bottom = z - m, drift * z - offset
        return behind * gap * lower * bottom - z * lower * bottom + z * gap * bottom - drift * z * gap * lower

    grid = np.geomspace(1e-14, 1 - m, 2000)
    values = slope(grid)
    i = int(np.argmax(values > 0))
    _checks.require(bool(values[i] > 0), "momentum", "a value whose multipliers can be resolved", momentum)
    return float(scipy.optimize.brentq(slope, grid[i - 1], grid[i], xtol=1e-300, rtol=1e-15))
