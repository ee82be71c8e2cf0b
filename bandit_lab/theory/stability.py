"""Readings of a linear loop's multipliers: margins, first loss of stability, instability islands, onset.

A scan from below and a root of (spectral radius - 1) give the first crossing, up to the resolution of the scan: an
unstable window narrower than one step (`points_per_decade`) is missed.

The period of the dominant mode: its phase, followed through the steps of a block. The multiplier of a block gives the
phase only up to whole turns. So the mode itself is run through one block, and the angles between successive positions
are summed; the multiplier then gives the phase to all digits. Derived here.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
import scipy

from bandit_lab import _checks
from bandit_lab.theory.block_map import LinearLoop, Matrix, assemble_block
from bandit_lab.theory.conventions import gain

Kind = Literal["flip", "neimark_sacker", "fold"]
COMPLEX = "the stiffness is complex (the drift is no gradient): a displacement turns at every learning rate"
_REAL = 1e-8
_GONE = 1e-13  # a multiplier that has fallen to 0


class Crossing(NamedTuple):
    """First loss of stability: `value` (learning rate, or refresh interval), `bifurcation`, and why there is none."""

    value: float | None
    bifurcation: Kind | None
    reason: str | None = None


def eigenvalues(matrix: Matrix) -> np.ndarray:
    """Multipliers [..., k] of maps [..., k, k], largest modulus first; a non-finite map gives infinities."""
    finite = np.isfinite(matrix).all(axis=(-2, -1))
    safe = np.where(finite[..., None, None], matrix, 0.0)
    values = np.linalg.eigvals(safe).astype(complex)
    values = np.where(finite[..., None], values, np.inf)
    order = np.argsort(-np.abs(values), axis=-1, kind="stable")
    return np.take_along_axis(values, order, axis=-1)


def multipliers(loop: LinearLoop, learning_rate: float, refresh_interval: float) -> np.ndarray:
    """Floquet multipliers [k] per block (`lag`, `random`: per step), largest modulus first."""
    loop.check_interval(refresh_interval)
    return eigenvalues(loop.map(learning_rate, refresh_interval))


def spectral_radius(loop: LinearLoop, learning_rate: float, refresh_interval: float, per_step: bool = False) -> float:
    """Largest multiplier modulus per block (`lag`, `random`: per step), or its N-th root with `per_step`."""
    radius = float(abs(multipliers(loop, learning_rate, refresh_interval)[0]))
    return radius ** (1 / loop.steps_per_map(int(refresh_interval))) if per_step else radius


def kind_of(multiplier: complex) -> Kind:
    """`flip` (real, negative), `fold` (real, positive) or `neimark_sacker` (complex pair)."""
    if abs(multiplier.imag) > _REAL * abs(multiplier):
        return "neimark_sacker"
    return "flip" if multiplier.real < 0 else "fold"


def repels(loop: LinearLoop) -> bool:
    """True if the on-policy drift itself repels: an eigenvalue of H_fresh + H_stale without positive real part."""
    return bool(np.linalg.eigvals(loop.total).real.min() <= 0)


def first_unstable_learning_rate(loop: LinearLoop, refresh_interval: float, points_per_decade: int = 48) -> Crossing:
    """Smallest learning rate at which the largest multiplier reaches modulus 1 [logit^2 per reward].

    Scan upwards from far below the leading-order law to 1e3 times the on-policy flip of the largest norm, then a root.
    Value 0 with a reason if the fixed point repels on-policy; None if stable
    all the way. Raises ValueError for a bad interval.
    """
    if repels(loop):
        return Crossing(0.0, None, "the fixed point repels at every learning rate")
    loop.check_interval(refresh_interval)
    grid = _scan_grid(loop, refresh_interval, points_per_decade)
    beyond = Crossing(None, None, f"stable up to learning rate {grid[-1]:.6g}, the end of the scan")
    previous = grid[0]
    for chunk in np.array_split(grid, max(1, len(grid) // 16)):
        radius = np.abs(eigenvalues(loop.map(chunk, refresh_interval))[..., 0])
        unstable = np.flatnonzero(radius >= 1)
        if unstable.size:
            i = int(unstable[0])
            low = chunk[i - 1] if i else previous
            return _refine(loop, refresh_interval, low, chunk[i])
        previous = chunk[-1]
    return beyond


def _scale(loop: LinearLoop) -> float:
    return float(max(np.linalg.norm(part, 2) for part in (loop.fresh, loop.stale, loop.total)))


def _scan_grid(loop: LinearLoop, interval: float, points_per_decade: int) -> np.ndarray:
    unit = 1 / (_scale(loop) * gain(loop.momentum, loop.convention))
    low = 0.02 * (1 - loop.momentum) * unit / (interval + 1)
    high = 1e3 * 2 * (1 + loop.momentum) * unit
    return np.geomspace(low, high, max(2, math.ceil(points_per_decade * math.log10(high / low))))


def _refine(loop: LinearLoop, interval: float, low: float, high: float) -> Crossing:
    def excess(log_rate: float) -> float:
        radius = abs(eigenvalues(loop.map(math.exp(log_rate), interval))[0])
        return min(float(radius), 1e3) - 1.0

    start, stop = math.log(low), math.log(high)
    if excess(start) >= 0:
        return Crossing(low, kind_of(multipliers(loop, low, interval)[0]), "unstable at the start of the scan")
    rate = math.exp(scipy.optimize.brentq(excess, start, stop, xtol=1e-15, rtol=1e-15))
    return Crossing(rate, kind_of(multipliers(loop, rate, interval)[0]))


def first_oscillating_learning_rate(loop: LinearLoop, refresh_interval: float, points_per_decade: int = 24) -> Crossing:
    """Smallest learning rate at which a mode rings: its multiplier is complex or negative.

    Each of the n modes has a multiplier that begins at 1. They are followed along their slopes; a step is halved until
    the mean of the slopes at its two ends leads each far nearer to its next place than to those of no mode.
    `points_per_decade`: of the longest steps. For a wholly stale stiffness this is `thresholds.oscillation_onset` at
    the largest. `bifurcation` tells what the multiplier becomes: `neimark_sacker` (complex) or `flip` (negative). 0,
    with the reason, where a stiffness is complex: then a multiplier is, at every learning rate.
    """
    stiffness = np.linalg.eigvals(loop.total)
    if np.any(np.abs(stiffness.imag) > _REAL * np.abs(stiffness).max()):
        return Crossing(0.0, "neimark_sacker", COMPLEX)
    grid = _scan_grid(loop, refresh_interval, points_per_decade)
    longest = 10 ** (1 / points_per_decade) - 1
    rate, step = grid[0] * 1e-3 * (1 - loop.momentum), longest
    values, slopes = _multipliers_and_slopes(loop, rate, refresh_interval)
    begun = np.argsort(np.abs(values - 1))[: loop.size]
    modes, slope = values[begun], slopes[begun]
    while rate < grid[-1]:
        ahead = rate * (1 + step)
        if not np.isfinite(loop.map(ahead, refresh_interval)).all():
            return Crossing(float(ahead), "fold")
        values, slopes = _multipliers_and_slopes(loop, ahead, refresh_interval)
        places: list[int] = []
        for one in modes + (ahead - rate) * slope:
            places.append(min(set(range(len(values))) - set(places), key=lambda i: abs(values[i] - one)))
        expected = modes + (ahead - rate) * 0.5 * (slope + slopes[places])
        others = np.abs(np.delete(values, places) - expected[:, None])
        clear = bool(np.all(np.abs(values[places] - expected)[:, None] < 0.002 * others))
        turned = values[places]
        rings = (np.abs(turned.imag) > _REAL * np.abs(turned)) | (turned.real < _GONE)
        if step > 1e-14 and (rings.any() or not clear):
            step /= 2
        elif rings.any():
            return Crossing(float(ahead), kind_of(turned[rings][0]) if abs(turned[rings][0]) > _GONE else "flip")
        else:
            rate, step, modes, slope = ahead, min(2 * step, longest), turned, slopes[places]
    return Crossing(None, None, f"no oscillation up to learning rate {grid[-1]:.6g}, the end of the scan")


def _multipliers_and_slopes(loop: LinearLoop, rate: float, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers [k] and their slopes [k] in the learning rate, l T' r/(l r) of the map T with eigenvectors l, r."""
    values, left, right = scipy.linalg.eig(loop.map(rate, interval), left=True)
    apart = 1e-6 * rate
    change = (loop.map(rate + apart, interval) - loop.map(rate - apart, interval)) / (2 * apart)
    with np.errstate(all="ignore"):
        slopes = np.einsum("ij,ik,kj->j", left.conj(), change, right) / np.einsum("ij,ij->j", left.conj(), right)
    return values, np.nan_to_num(slopes)


def unstable_intervals(loop: LinearLoop, learning_rate: float, maximum: int) -> np.ndarray:
    """True for each unstable refresh interval N = first..maximum; first is 1 (`lag`: 0).

    Block models multiply up T^N once; `lag` counts the roots outside the unit circle for each N by the argument
    principle (`unstable_roots`). Not offered for `random`. Raises ValueError for maximum < 1.
    """
    _checks.integer("maximum", maximum, 1)
    _checks.choice("staleness", loop.model, ("refresh", "lag", "pipeline"))
    if loop.model == "lag":
        return np.array([unstable_roots(loop, learning_rate, lag) > 0 for lag in range(maximum + 1)])
    one, force = loop.step(learning_rate)
    free, forced = np.eye(2 * loop.size), np.zeros_like(force)
    result = np.zeros(maximum, bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(maximum):
            free, forced = one @ free, one @ forced + force
            result[i] = np.abs(eigenvalues(assemble_block(free, forced, loop.model))[0]) >= 1
    return result


def unstable_roots(loop: LinearLoop, learning_rate: float, lag: int) -> int:
    """Number of multipliers outside the unit circle for `lag`, counted by the argument principle.

    The characteristic function det[(z-1)(z-mu) + eta gain b(z)(H_fresh + z^-N H_stale)], b = z or (1+mu) z - mu, tends
    to z^{2n} far out, so outside zeros = 2n - winding on the circle. The contour is refined until no phase step exceeds
    a quarter turn. Derived here.
    """
    mu, n = loop.momentum, loop.size
    force = learning_rate * gain(mu, loop.convention)
    points = 256 * (lag + 4)
    for _ in range(8):
        z = np.exp(1j * np.pi * (np.arange(points + 1) / points))
        look = (1 + mu) * z - mu if loop.convention == "nesterov" else z
        bend = (z**-lag)[:, None, None] * loop.stale + loop.fresh
        function = np.linalg.det(((z - 1) * (z - mu))[:, None, None] * np.eye(n) + (force * look)[:, None, None] * bend)
        jumps = np.angle(function[1:] / function[:-1])
        if np.abs(jumps).max() < np.pi / 2:
            break
        points *= 4
    return round(2 * n - float(jumps.sum()) / np.pi)


def islands(loop: LinearLoop, learning_rate: float, maximum: int) -> list[tuple[int, int]]:
    """Maximal runs [first, last] of unstable refresh intervals up to `maximum`; a run that ends there may go on."""
    first = 0 if loop.model == "lag" else 1
    flags = np.concatenate([[False], unstable_intervals(loop, learning_rate, maximum), [False]])
    edges = np.flatnonzero(np.diff(flags.astype(int)))
    return [(int(a) + first, int(b) - 1 + first) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def first_unstable_refresh_interval(loop: LinearLoop, learning_rate: float, maximum: int = 1024) -> Crossing:
    """Smallest refresh interval that is unstable at this learning rate, or None with a reason up to `maximum`."""
    if repels(loop):
        return Crossing(1.0 if loop.model != "lag" else 0.0, None, "the fixed point repels at every learning rate")
    flags = unstable_intervals(loop, learning_rate, maximum)
    if not flags.any():
        return Crossing(None, None, f"stable at every refresh interval up to {maximum}")
    interval = int(np.argmax(flags)) + (0 if loop.model == "lag" else 1)
    return Crossing(float(interval), kind_of(multipliers(loop, learning_rate, interval)[0]))


_NO_TURN = 1e-12
_ALIKE = 1e-9


def period(loop: LinearLoop, learning_rate: float, refresh_interval: float) -> float | None:
    """Steps per cycle of the dominant mode, 2 where it changes sign at every step; None where it does not swing.

    Of modes that decay equally fast it is the one that turns fastest. Raises ValueError for a bad interval.
    """
    steps = loop.steps_per_map(int(refresh_interval))
    if steps == 1:
        values = multipliers(loop, learning_rate, refresh_interval)
        turned = float(np.abs(np.angle(values[np.abs(values) >= (1 - _ALIKE) * abs(values[0])])).max())
    else:
        turned = _turned(loop, learning_rate, steps)
    return None if turned < _NO_TURN else 2 * math.pi / turned * steps


def _turned(loop: LinearLoop, learning_rate: float, steps: int) -> float:
    """Radians that the dominant mode turns through in one block, whole turns included."""
    matrix = loop.map(learning_rate, steps)
    if not np.isfinite(matrix).all():
        return 0.0
    values, vectors = np.linalg.eig(matrix)
    n, (one, force) = loop.size, loop.step(learning_rate)
    dominant = np.abs(values) >= (1 - _ALIKE) * np.abs(values).max()
    most = 0.0
    for value, mode in zip(values[dominant], vectors.T[dominant].astype(complex), strict=True):
        state, rollout = mode[: 2 * n], mode[:n] if loop.model == "refresh" else mode[2 * n :]
        exact, counted = float(np.angle(value)), 0.0
        for _ in range(steps):
            moved = one @ state + force @ rollout
            counted += float(np.angle(np.vdot(state[:n], moved[:n])))
            state, rollout = _scaled(moved, rollout)
        most = max(most, abs(exact + 2 * math.pi * round((counted - exact) / (2 * math.pi))))
    return most


def _scaled(state: Matrix, rollout: Matrix) -> tuple[Matrix, Matrix]:
    size = max(float(np.abs(state).max()), float(np.abs(rollout).max()))
    return state / size, rollout / size
