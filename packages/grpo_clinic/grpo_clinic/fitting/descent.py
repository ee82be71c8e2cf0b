"""Damped Gauss-Newton (Levenberg-Marquardt) for many curves at once, within bounds.

Plateau and amplitude are solved for at every theta and their directions taken out of the Jacobian (variable
projection; Kaufman, BIT 15, 1975), so that steps are taken in theta alone. A coordinate that would leave its bounds is
put there and the others are solved for again. A curve is done when an undamped step promises to lower its sum of
squares by less than `DONE` of it.
"""

import numpy as np

from grpo_clinic.fitting import likelihood
from grpo_clinic.fitting.shapes import Shape
from grpo_clinic.readers.record import Floats

DONE = 1e-10
"""Share of the sum of squares that is not worth a step."""
_ITERATIONS = 100
_FARTHEST = 0.7
"""Largest step of a coordinate of theta, all of which are logarithms or of order one."""
_DAMPING, _LEAST, _MOST = 1e-2, 1e-9, 1e9
_FACTOR = 5.0
_GOOD, _POOR = 0.75, 0.25
"""Damping falls by the factor after a step that kept more of its promise, and rises after one that kept less."""
_SLOPE = 1e-3
"""Half the width of the central differences in theta."""
_RIDGE = 1e-10


class _Problem:
    """Whitened, weighted curves [C, T] and their law."""

    def __init__(self, shape: Shape, time: Floats, reward: Floats, weights: Floats, rho: Floats):
        self.shape, self.time = shape, time
        self.root = np.sqrt(weights)
        self.phi = np.stack([likelihood.correlations(time, float(value)) for value in rho])
        self.target = self.root * likelihood.whiten(reward, self.phi)

    def state(self, theta: Floats, rows: np.ndarray) -> tuple[Floats, Floats, Floats]:
        """(J'J [C, q, q], J'r [C, q], r'r [C]) of the curves `rows` at theta [C, q], residual r = target - model."""
        root, phi, target = self.root[rows], self.phi[rows], self.target[rows]

        def seen(values: Floats) -> Floats:
            return root * likelihood.whiten(values, phi)

        rising = self.shape.growth(self.time, theta[:, None, :]) - 1
        linear = np.stack((seen(np.ones_like(target)), seen(rising)), axis=-1)
        slopes = np.stack([seen(self._slope(theta, k)) for k in range(self.shape.size)], axis=-1)
        solved = _least_squares(linear, np.concatenate((target[..., None], slopes), axis=-1))
        residual = target - np.einsum("ctk,ck->ct", linear, solved[..., 0])
        jacobian = solved[:, 1, 0, None, None] * (slopes - np.einsum("ctk,ckq->ctq", linear, solved[..., 1:]))
        normal = np.einsum("ctp,ctq->cpq", jacobian, jacobian)
        return normal, np.einsum("ctq,ct->cq", jacobian, residual), np.sum(residual**2, axis=-1)

    def _slope(self, theta: Floats, k: int) -> Floats:
        shift = _SLOPE * np.eye(self.shape.size)[k]
        above, below = (self.shape.growth(self.time, (theta + s)[:, None, :]) for s in (shift, -shift))
        return (above - below) / (2 * _SLOPE)


def descend(
    shape: Shape, time: Floats, reward: Floats, weights: Floats, starts: Floats, rho: Floats
) -> tuple[Floats, Floats]:
    """(theta [C, q], its covariance [C, q, q]) at the lowest of the minima near each start [C, S, q], for curves [C, T]
    with Huber's `weights` [C, T] and autocorrelation `rho` [C]."""
    count = starts.shape[1]
    rewards, weights, rhos = (np.repeat(values, count, axis=0) for values in (reward, weights, rho))
    theta, covariance, squares = _descend(shape, time, rewards, weights, rhos, starts.reshape(-1, shape.size))
    best = np.arange(len(reward)) * count + squares.reshape(-1, count).argmin(axis=-1)
    return theta[best], covariance[best]


def _descend(
    shape: Shape, time: Floats, reward: Floats, weights: Floats, rho: Floats, theta: Floats
) -> tuple[Floats, Floats, Floats]:
    """(theta [C, q], covariance [C, q, q], sum of squares [C]) of every curve from one start [C, q]."""
    problem, low, high = _Problem(shape, time, reward, weights, rho), *shape.bounds(time)
    theta, rows = np.clip(theta, low, high), np.arange(len(theta))
    normal, slope, squares = problem.state(theta, rows)
    damping = np.full(len(theta), _DAMPING)
    for _ in range(_ITERATIONS):
        below, above = low - theta[rows], high - theta[rows]
        promised = _step(normal[rows], slope[rows], np.full(rows.size, _LEAST), below, above)
        rows = rows[(_gain(normal[rows], slope[rows], promised) > DONE * squares[rows]) & (damping[rows] < _MOST)]
        if not rows.size:
            break
        below, above = (np.clip(end - theta[rows], -_FARTHEST, _FARTHEST) for end in (low, high))
        step = _step(normal[rows], slope[rows], damping[rows], below, above)
        trial = np.clip(theta[rows] + step, low, high)
        found = problem.state(trial, rows)
        kept_promise = (squares[rows] - found[2]) / np.maximum(_gain(normal[rows], slope[rows], step), 1e-300)
        better = found[2] < squares[rows]
        kept = rows[better]
        theta[kept] = trial[better]
        normal[kept], slope[kept], squares[kept] = (part[better] for part in found)
        change = np.where(kept_promise > _GOOD, 1 / _FACTOR, np.where(kept_promise < _POOR, _FACTOR, 1.0))
        damping[rows] = np.clip(damping[rows] * change, _LEAST, _MOST)
    freedom = np.maximum(weights.sum(axis=-1) - 2 - shape.size, 1)
    return theta, _inverse(normal) * (squares / freedom)[:, None, None], squares


def _step(normal: Floats, slope: Floats, damping: Floats, below: Floats, above: Floats) -> Floats:
    """Damped step [C, q] with every coordinate inside [below, above] [C, q], which hold 0.

    A coordinate at its end stays there if the sum of squares falls outwards. Then the one that goes furthest too far
    is put to its end and the others are solved for again.
    """
    unit = np.eye(slope.shape[-1])
    size = np.einsum("cqq->cq", normal)
    damped = normal + ((damping[:, None] + _RIDGE) * size + 1e-300)[:, :, None] * unit
    step = np.zeros_like(slope)
    held = ((slope < 0) & (below >= 0)) | ((slope > 0) & (above <= 0))
    for _ in range(slope.shape[-1]):
        free = ~held
        matrix = np.where(free[:, :, None] & free[:, None, :], damped, np.where(unit > 0, 1.0, 0.0))
        right = np.where(free, slope - np.einsum("cpq,cq->cp", normal, np.where(held, step, 0.0)), step)
        wanted = np.linalg.solve(matrix, right[..., None])[..., 0]
        step = np.clip(wanted, below, above)
        beyond = np.abs(wanted - step) / np.maximum(np.abs(step), 1e-12)
        held |= (beyond > 0) & (beyond == beyond.max(axis=-1, keepdims=True))
    return step


def _gain(normal: Floats, slope: Floats, step: Floats) -> Floats:
    """By how much a step lowers the sum of squares [C], to second order."""
    return 2 * np.sum(slope * step, axis=-1) - np.einsum("cp,cpq,cq->c", step, normal, step)


def _least_squares(matrix: Floats, targets: Floats) -> Floats:
    """Coefficients [C, 2, n] of the columns of `matrix` [C, T, 2] for targets [C, T, n]."""
    normal = np.einsum("cti,ctj->cij", matrix, matrix)
    normal = normal + 1e-14 * np.einsum("cii->c", normal)[:, None, None] * np.eye(matrix.shape[-1])
    return np.linalg.solve(normal, np.einsum("cti,ctn->cin", matrix, targets))


def _inverse(normal: Floats) -> Floats:
    """Inverse [C, q, q], with a ridge where a direction is not seen at all."""
    size = np.sqrt(np.einsum("cqq->cq", normal))
    size = np.maximum(size, 1e-9 * size.max(axis=-1, keepdims=True) + 1e-60)
    scale = size[:, :, None] * size[:, None, :]
    return np.linalg.inv(normal / scale + _RIDGE * np.eye(normal.shape[-1])) / scale
