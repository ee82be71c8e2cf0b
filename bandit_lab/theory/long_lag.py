"""Linear loops with a long lag, without the matrix of that size: multipliers, first crossing, stationary fluctuation.

Derived here. With f = eta * gain and b(z) = z (nesterov: (1+mu) z - mu) a gradient g and the position x are related by
(z-1)(z-mu) x = f b(z) g, and g = -(H_fresh + z^-N H_stale) x + noise closes the loop:

    D(z) x = f b(z) noise,      D(z) = (z-1)(z-mu) + f b(z) (H_fresh + z^-N H_stale).

Multipliers are the roots of p = det z^N D(z), of degree n (N+2). With A = (z-1)(z-mu) + f b H_fresh and
f b H_stale = U V^T of rank r (importance ratios: 1) the roots other than 0 are those of det A det(z^N + V^T A^-1 U), of
degree 2n + r N. All are found at once by Aberth's iteration, Newton's with the other roots divided out:
z_i - 1/(p'/p - sum_j 1/(z_i - z_j)), p'/p a trace. Modes that do not see each other (nothing fresh) are taken one by
one.

On the unit circle D(z) is singular at the learning rates eta = -1/l, l a real negative eigenvalue of gain b(z)
(H_fresh + z^-N H_stale)/((z-1)(z-mu)). Small learning rates being stable, the least of them is the first crossing.

The stationary spectrum is G C G^H with G = f b D^-1 at z = e^{iw} and C the noise of one update; its mean over the
circle is the covariance, by the trapezoidal rule to r^points, r the largest modulus of a multiplier.
"""

from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq

from bandit_lab.theory.block_map import LinearLoop, Matrix
from bandit_lab.theory.conventions import gain
from bandit_lab.theory.thresholds import angle_grid

LARGEST_MATRIX = 128
"""Size of a step map, (N+2) n, from which on this module takes its place."""
_ROUNDS, _PATIENCE = 100, 40  # of an iteration at most, and until two multipliers are taken for one double
_SETTLED, _DOUBLE = 1e-12, 1e-7  # relative step of an iteration that has settled; of one near a double multiplier
_MIXED = 1e-10  # imaginary part of a mode's stiffness over its modulus that is rounding
_REAL = 1e-13  # the same of a multiplier
_FLAT = 1e-6  # the same of a loop's eigenvalue at angle pi
_RANK = 1e-12  # singular value over the largest that is rounding
_DIGITS = 40.0  # e-folds of the trapezoidal rule's error
_MOST_POINTS, _CHUNK = 2**22, 2**16


def is_long(loop: LinearLoop, refresh_interval: float) -> bool:
    """Whether the loop is one of a lag whose step map is large."""
    return type(loop) is LinearLoop and loop.model == "lag" and (int(refresh_interval) + 2) * loop.size > LARGEST_MATRIX


def modes(loop: LinearLoop) -> list[LinearLoop]:
    """Loops of one coordinate each that make up the loop, where nothing is fresh; else the loop itself."""
    if loop.size == 1 or np.any(loop.fresh):
        return [loop]
    values = np.linalg.eigvals(loop.stale)
    if np.any(np.abs(values.imag) > _MIXED * np.abs(values)):
        return [loop]
    return [LinearLoop(0.0, value, loop.momentum, loop.model, loop.convention) for value in values.real]


def _look(loop: LinearLoop, z: np.ndarray) -> tuple[np.ndarray, float]:
    """b(z), shape of z, and its derivative."""
    if loop.convention == "nesterov":
        return (1 + loop.momentum) * z - loop.momentum, 1 + loop.momentum
    return z, 1.0


def _wide(values: np.ndarray) -> np.ndarray:
    return values[..., None, None]


def multipliers(loop: LinearLoop, learning_rate: float, lag: int, guess: np.ndarray | None = None) -> np.ndarray | None:
    """All multipliers [(N+2) n] per step, largest modulus first; None where the iteration does not settle.

    `guess`: those at a learning rate near by, with which the iteration of a loop of one mode then begins.
    """
    parts = modes(loop)
    found = [_roots(mode, learning_rate, lag, guess if len(parts) == 1 else None) for mode in parts]
    if any(one is None for one in found):
        return None
    every = np.concatenate([one for one in found if one is not None])
    every = np.where(np.abs(every.imag) <= _REAL * np.abs(every), every.real, every)
    every = np.concatenate([every, np.zeros((lag + 2) * loop.size - len(every))])
    return every[np.argsort(-np.abs(every), kind="stable")]


def _roots(loop: LinearLoop, learning_rate: float, lag: int, guess: np.ndarray | None) -> np.ndarray | None:
    """The multipliers other than those that are 0 at every learning rate."""
    force, looks_ahead = learning_rate * gain(loop.momentum, loop.convention), loop.convention == "nesterov"
    strengths = _strengths(loop)
    rank = len(strengths)
    if rank == 0:
        return None
    zeros = loop.size if loop.momentum == 0 else 0 if looks_ahead else rank
    count = 2 * loop.size + rank * lag - zeros
    push = np.prod(force * strengths * (loop.momentum if looks_ahead and loop.momentum > 0 else 1.0))
    circle = push ** (1 / count) * np.exp(2j * np.pi * (np.arange(count) + 0.25) / count)
    near = None if guess is None else guess[:count] + 1e-3j * np.abs(guess[:count] - 1)  # pairs can leave the real axis
    for start, together in ((near, False), (circle, True)):
        if start is None:
            continue
        found, step = _iterated(loop, force, lag, start, zeros, together)
        whole = np.trace(loop.step(learning_rate)[0])  # the sum of all multipliers: none was found twice
        if abs(found.sum() - whole) <= 10 * count * step:
            return found
    return None


def _iterated(
    loop: LinearLoop, force: float, lag: int, place: np.ndarray, zeros: int, together: bool
) -> tuple[np.ndarray, float]:
    """(roots [M], to which relative step they settled) from these starts, by Aberth's iteration (`together`) or by
    Newton's; (anything, NaN) if one does not settle."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for done in range(_ROUNDS):
            slope, place = _log_slope_near(loop, force, lag, place)
            slope = slope - zeros / place
            if together:
                apart = place[:, None] - place
                np.fill_diagonal(apart, np.inf)
                slope = slope - (1 / apart).sum(axis=1)
            step = np.where(np.isfinite(slope), 1 / slope, 0)  # p = 0: a root to the last digit
            place, wanted = place - step, _SETTLED if done < _PATIENCE else _DOUBLE
            if np.all(np.abs(step) <= wanted * np.abs(place)):
                return place, wanted
    return place, np.nan


def _log_slope_near(loop: LinearLoop, force: float, lag: int, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p'/p, z) [M], moved off roots that are hit to the last digit, where a matrix cannot be inverted."""
    for moved in (z, z * (1 + 1e-13), z * (1 + 2e-13)):
        try:
            return _log_slope(loop, force, lag, moved), moved
        except np.linalg.LinAlgError:
            continue
    return np.full_like(z, np.nan), z


def _log_slope(loop: LinearLoop, force: float, lag: int, z: np.ndarray) -> np.ndarray:
    """p'/p at points z [M] for p = det z^N D(z); written with z^-N outside of the unit circle and z^N inside."""
    now, now_slope, old, old_slope, rest = _parts(loop, force, z)
    rank = now.shape[-1]
    outside = np.abs(z) >= 1
    power = _wide(np.where(outside, z, 1 / z) ** -float(lag))
    per = _wide(lag / z)
    far = now + old * power, now_slope + (old_slope - per * old) * power
    near = now * power + old, (now_slope + per * now) * power + old_slope
    value, slope = (np.where(_wide(outside), *pair) for pair in zip(far, near, strict=True))
    ratio = slope[:, 0, 0] / value[:, 0, 0] if rank == 1 else np.linalg.solve(value, slope).trace(axis1=1, axis2=2)
    return ratio + rest + np.where(outside, rank * lag / z, 0)


def _parts(loop: LinearLoop, force: float, z: np.ndarray) -> tuple[np.ndarray, ...]:
    """What stands beside 1 and beside z^-N in a determinant [M, r, r], each with its slope; p'/p [M] of the rest."""
    mu, n, strengths = loop.momentum, loop.size, _strengths(loop)
    look, look_slope = _look(loop, z)
    now = _wide((z - 1) * (z - mu)) * np.eye(n) + _wide(force * look) * loop.fresh
    now_slope = _wide(2 * z - 1 - mu) * np.eye(n) + force * look_slope * loop.fresh
    if len(strengths) == n:
        return now, now_slope, _wide(force * look) * loop.stale, force * look_slope * loop.stale, np.zeros_like(z)
    left, _, right = np.linalg.svd(loop.stale)
    left, right = left[:, : len(strengths)] * strengths, right[: len(strengths)]
    inner = np.linalg.solve(now, np.broadcast_to(left, (len(z), *left.shape)))
    turned = np.linalg.solve(now, now_slope)
    old = _wide(force * look) * (right @ inner)
    old_slope = force * look_slope * (right @ inner) - _wide(force * look) * (right @ turned @ inner)
    unit = np.broadcast_to(np.eye(len(strengths)), old.shape)
    return unit, np.zeros_like(old), old, old_slope, turned.trace(axis1=1, axis2=2)


def _strengths(loop: LinearLoop) -> np.ndarray:
    """Singular values [r] of H_stale that are not rounding."""
    values = np.linalg.svd(loop.stale, compute_uv=False)
    return values[values > _RANK * values[0]]


def first_crossing(loop: LinearLoop, lag: int) -> tuple[float, complex] | None:
    """Least learning rate with a multiplier on the unit circle, and that multiplier; None where there is none.

    For a loop whose small learning rates are stable. A scan of 96 (N+2) angles and a root in each bracket.
    """
    found = [one for mode in modes(loop) for one in _crossings(mode, lag)]
    return min(found, key=lambda one: one[0]) if found else None


def _crossings(loop: LinearLoop, lag: int) -> Iterator[tuple[float, complex]]:
    def loops(angle: np.ndarray) -> np.ndarray:
        """Eigenvalues l [..., n] at these angles [...]."""
        z = np.exp(1j * angle)
        ratio = gain(loop.momentum, loop.convention) * _look(loop, z)[0] / ((z - 1) * (z - loop.momentum))
        matrix = _wide(ratio) * (loop.fresh + _wide(z ** -float(lag)) * loop.stale)
        return matrix[..., 0] if loop.size == 1 else np.linalg.eigvals(matrix)

    def turn(angle: float) -> float:
        """Changes sign where one eigenvalue crosses the real axis, in whatever order they come."""
        return float(np.prod(loops(np.array(angle)).imag))

    grid = angle_grid(lag)[:-1]
    sides = np.sign(np.prod(loops(grid).imag, axis=-1))
    angles = [brentq(turn, grid[i], grid[i + 1], xtol=1e-15) for i in np.flatnonzero(sides[:-1] * sides[1:] < 0)]
    for angle in (*angles, np.pi):
        values, flip = loops(np.array(angle)), angle == np.pi  # where eigenvalues are real, or come in pairs
        off = np.abs(values.imag)
        for value in values[(off <= _FLAT * np.abs(values) if flip else off == off.min()) & (values.real < 0)]:
            yield float(-1 / value.real), -1.0 + 0j if flip else complex(np.exp(1j * angle))


def spectrum(loop: LinearLoop, learning_rate: float, lag: int, noise: Matrix, angles: np.ndarray) -> np.ndarray:
    """G C G^H [F, n, n] at `angles` [F], radians per step; `noise` C [n, n] of one update. For a stable loop."""
    z, force = np.exp(1j * np.asarray(angles, float)), learning_rate * gain(loop.momentum, loop.convention)
    look = _wide(force * _look(loop, z)[0])
    closed = _wide((z - 1) * (z - loop.momentum)) * np.eye(loop.size)
    closed = closed + look * (loop.fresh + _wide(z ** -float(lag)) * loop.stale)
    response = look * np.linalg.inv(closed)
    return response @ noise @ response.conj().swapaxes(-1, -2)


def autocovariance(
    loop: LinearLoop, learning_rate: float, lag: int, noise: Matrix, radius: float, steps: int = 0
) -> np.ndarray | None:
    """Covariance [steps + 1, n, n] of the position now and 0..steps steps later, at largest modulus `radius` < 1.

    None where the rule would need more than 4 million points: within 1e-5 of the threshold, or of learning rate 0.
    """
    needed = _DIGITS / (1 - radius)
    if needed > _MOST_POINTS:
        return None
    points = 1 << int(np.ceil(np.log2(needed + 4 * (lag + 2 + steps))))
    total = np.zeros((steps + 1, loop.size, loop.size))
    for start in range(0, points // 2 + 1, _CHUNK):
        place = np.arange(start, min(start + _CHUNK, points // 2 + 1))
        weight = np.where((place == 0) | (place == points // 2), 1.0, 2.0) / points
        angle = 2 * np.pi * place / points
        part = spectrum(loop, learning_rate, lag, noise, angle) * _wide(weight)
        turns = np.exp(1j * np.multiply.outer(np.arange(steps + 1), angle))
        total += np.einsum("jf,fkl->jkl", turns, part).real
    return total
