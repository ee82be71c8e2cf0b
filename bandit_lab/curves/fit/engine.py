"""Fitting one law to many curves at once: a grid of starts, damped Gauss-Newton from the best, then the neighbourhood.

1. All shapes of the grid and all noise models are solved in closed form (`likelihood`); the best gives robust
   weights, and once more.
2. From the best theta, damped Gauss-Newton (Levenberg-Marquardt) on the whitened weighted residuals, the Jacobian of
   theta by central differences.
3. The curvature there gives the error ellipse, and rays from its centre across its rim are solved as well.

Grid and neighbourhood together are a picture of the likelihood from which `intervals` reads profile intervals. Many
curves that share their steps go through in one call.
"""

from dataclasses import dataclass

import numpy as np

from bandit_lab.curves.fit import likelihood
from bandit_lab.curves.fit.likelihood import RHO, Points
from bandit_lab.curves.fit.shapes import Shape
from bandit_lab.curves.record import Floats

_ITERATIONS = 12
RADII = 1.68 * np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.03, 1.1, 1.3, 1.6, 2.2])
"""Distances from the best fit along each ray [standard errors], dense where a 90 % interval ends."""
_DIRECTIONS = 16


@dataclass(frozen=True)
class Picture:
    """The likelihood of one law around its best fit, for C curves.

    `theta` [C, q] best, `rho` [C], `plateau`, `amplitude`, `sigma` [C] there, `weights` [C, T]; `points` [R, C, M]
    with their shapes `shapes` [C, M, q] and `deviance` [R, C, M]; `freedom` [C] effective points less parameters;
    `fitted` [C, T]; `log_likelihood` [C], the plain one, for information criteria.
    """

    shape: Shape
    time: Floats
    theta: Floats
    rho: Floats
    plateau: Floats
    amplitude: Floats
    sigma: Floats
    weights: Floats
    shapes: Floats
    points: Points
    deviance: Floats
    freedom: Floats
    fitted: Floats
    log_likelihood: Floats


def fit(shape: Shape, time: Floats, reward: Floats) -> Picture:
    """Fit one law to C curves [C, T] on common times [T], starting at 0."""
    grid = shape.grid(time)
    rising = _rising(shape, time, grid)
    weights = np.ones_like(reward)
    for _ in range(3):
        freedom = weights.sum(axis=-1) - 2 - shape.size + (rising is None)
        points = likelihood.solve(time, reward, weights, rising, RHO)
        level = likelihood.deviance(points, freedom)
        r, m = _best(level)
        theta = grid[m]
        weights = likelihood.robust_weights(_innovations(shape, time, reward, theta, points, r, m))
    if rising is None:
        return _picture(shape, time, reward, weights, theta, np.zeros((reward.shape[0], 1, 0)), points, level, freedom)
    theta, covariance = _descend(shape, time, reward, weights, theta, RHO[r])
    around = _neighbourhood(shape, time, theta, covariance)
    local = likelihood.solve(time, reward, weights, shape.growth(time, around[..., None, :]) - 1, RHO)
    points = likelihood.solve(time, reward, weights, rising, RHO)
    points = Points(*(_joined(a, b) for a, b in zip(_fields(points), _fields(local), strict=True)))
    shapes = np.concatenate((np.broadcast_to(grid, (reward.shape[0], *grid.shape)), around), axis=1)
    freedom = weights.sum(axis=-1) - 2 - shape.size
    return _picture(shape, time, reward, weights, theta, shapes, points, likelihood.deviance(points, freedom), freedom)


def _fields(points: Points) -> tuple[Floats, ...]:
    return tuple(vars(points).values())


def _joined(a: Floats, b: Floats) -> Floats:
    return a if a.ndim == 2 else np.concatenate((a, b), axis=-1)


def _rising(shape: Shape, time: Floats, theta: Floats) -> Floats | None:
    return shape.growth(time, theta[..., None, :]) - 1 if shape.size else None


def _best(level: Floats) -> tuple[np.ndarray, np.ndarray]:
    """(noise model, shape) of the smallest deviance of each curve, [C] and [C]."""
    flat = np.moveaxis(level, 1, 0).reshape(level.shape[1], -1).argmin(axis=-1)
    return np.unravel_index(flat, (level.shape[0], level.shape[2]))


def _pick(values: Floats, r: np.ndarray, m: np.ndarray) -> Floats:
    return values[r, np.arange(values.shape[1]), m]


def _curve(shape: Shape, time: Floats, theta: Floats, plateau: Floats, amplitude: Floats) -> Floats:
    if not shape.size:
        return np.broadcast_to(plateau[:, None], (plateau.size, time.size))
    return plateau[:, None] + amplitude[:, None] * (shape.growth(time, theta[:, None, :]) - 1)


def _innovations(
    shape: Shape, time: Floats, reward: Floats, theta: Floats, points: Points, r: np.ndarray, m: np.ndarray
) -> Floats:
    fitted = _curve(shape, time, theta, _pick(points.plateau, r, m), _pick(points.amplitude, r, m))
    phi = np.stack([likelihood.correlations(time, float(RHO[k])) for k in r])
    return likelihood.whiten(reward - fitted, phi)


def _descend(
    shape: Shape, time: Floats, reward: Floats, weights: Floats, theta: Floats, rho: Floats
) -> tuple[Floats, Floats]:
    """(theta [C, q], its covariance per unit noise variance [C, q, q]) at the minimum near the given start."""
    low, high = shape.bounds(time)
    phi = np.stack([likelihood.correlations(time, float(value)) for value in rho])
    root = np.sqrt(weights)
    target = root * likelihood.whiten(reward, phi)
    damping = np.full(theta.shape[0], 1e-2)

    def state(at: Floats) -> tuple[Floats, Floats, Floats]:
        """Residual [C, T], its Jacobian in (plateau, amplitude, theta) [C, T, 2 + q] and sum of squares [C]."""
        h = shape.growth(time, at[:, None, :]) - 1
        linear = np.stack([root * likelihood.whiten(v, phi) for v in (np.ones_like(reward), h)], axis=-1)
        solution = _least_squares(linear, target)
        residual = target - np.einsum("ctk,ck->ct", linear, solution)
        slopes = []
        for k in range(shape.size):
            shift = np.zeros(shape.size)
            shift[k] = 1e-3
            slope = (shape.growth(time, (at + shift)[:, None, :]) - shape.growth(time, (at - shift)[:, None, :])) / 2e-3
            slopes.append(root * likelihood.whiten(solution[:, 1:] * slope, phi))
        return residual, np.concatenate((linear, np.stack(slopes, axis=-1)), axis=-1), np.sum(residual**2, axis=-1)

    residual, jacobian, squares = state(theta)
    for _ in range(_ITERATIONS):
        step = _damped_step(jacobian, residual, damping)[:, 2:]
        trial = np.clip(theta + np.clip(step, -0.7, 0.7), low, high)
        trial_residual, trial_jacobian, trial_squares = state(trial)
        better = trial_squares < squares
        theta = np.where(better[:, None], trial, theta)
        residual = np.where(better[:, None], trial_residual, residual)
        jacobian = np.where(better[:, None, None], trial_jacobian, jacobian)
        squares = np.where(better, trial_squares, squares)
        damping = np.clip(np.where(better, damping / 5, damping * 5), 1e-9, 1e6)
    normal = np.einsum("cti,ctj->cij", jacobian, jacobian)
    scale = np.sqrt(np.einsum("cii->ci", normal))
    scale = np.maximum(scale, 1e-9 * scale.max(axis=-1, keepdims=True) + 1e-60)
    normal = normal / (scale[:, :, None] * scale[:, None, :]) + 1e-10 * np.eye(normal.shape[-1])
    inverse = np.linalg.inv(normal) / (scale[:, :, None] * scale[:, None, :])
    return theta, inverse[:, 2:, 2:] * (squares / np.maximum(weights.sum(axis=-1) - 2 - shape.size, 1))[:, None, None]


def _least_squares(matrix: Floats, target: Floats) -> Floats:
    normal = np.einsum("cti,ctj->cij", matrix, matrix)
    normal = normal + 1e-12 * np.einsum("cii->c", normal)[:, None, None] * np.eye(matrix.shape[-1])
    return np.linalg.solve(normal, np.einsum("cti,ct->ci", matrix, target)[..., None])[..., 0]


def _damped_step(jacobian: Floats, residual: Floats, damping: Floats) -> Floats:
    normal = np.einsum("cti,ctj->cij", jacobian, jacobian)
    diagonal = np.einsum("cii->ci", normal) + 1e-12 * np.einsum("cii->c", normal)[:, None] + 1e-300
    normal = normal + (damping[:, None] * diagonal)[:, :, None] * np.eye(normal.shape[-1])
    return np.linalg.solve(normal, np.einsum("cti,ct->ci", jacobian, residual)[..., None])[..., 0]


def _neighbourhood(shape: Shape, time: Floats, theta: Floats, covariance: Floats) -> Floats:
    """Shapes [C, 1 + rays * radii, q]: theta itself, then outwards along each ray in turn, straight in `shape.bend`."""
    low, high = shape.bounds(time)
    step = 1e-4 * np.eye(shape.size)
    slopes = [(shape.bend(theta, theta + h) - shape.bend(theta, theta - h)) / 2e-4 for h in step]
    inverse = np.linalg.inv(np.stack(slopes, axis=-1))
    values, axes = np.linalg.eigh(inverse @ covariance @ np.swapaxes(inverse, -1, -2))
    spread = np.clip(np.sqrt(np.maximum(values, 0)), 1e-6, 1.0)
    units = np.concatenate(
        (np.zeros((1, shape.size)), (rays(shape)[:, None, :] * RADII[:, None]).reshape(-1, shape.size))
    )
    shifts = np.einsum("cij,cj,lj->cli", axes, spread, units)
    return np.clip(shape.bend(theta[:, None, :], theta[:, None, :] + shifts), low, high)


def rays(shape: Shape) -> Floats:
    """Unit vectors [rays, q] along which the neighbourhood of the best fit is looked at."""
    if shape.size == 1:
        return np.array([[1.0], [-1.0]])
    angle = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    return np.stack((np.cos(angle), np.sin(angle)), axis=-1)


def _picture(
    shape: Shape,
    time: Floats,
    reward: Floats,
    weights: Floats,
    theta: Floats,
    shapes: Floats,
    points: Points,
    level: Floats,
    freedom: Floats,
) -> Picture:
    r, m = _best(level)
    if shape.size:
        theta = shapes[np.arange(reward.shape[0]), m]
    plateau, amplitude, squares = (_pick(v, r, m) for v in (points.plateau, points.amplitude, points.squares))
    count = weights.sum(axis=-1)
    log_likelihood = -0.5 * (
        points.log_volume[r, np.arange(r.size)] + count * (np.log(2 * np.pi * squares / count) + 1)
    )
    fitted = _curve(shape, time, theta, plateau, amplitude)
    sigma = np.sqrt(squares / np.maximum(freedom, 1))
    return Picture(
        shape,
        time,
        theta,
        RHO[r],
        plateau,
        amplitude,
        sigma,
        weights,
        shapes,
        points,
        level,
        freedom,
        fitted,
        log_likelihood,
    )
