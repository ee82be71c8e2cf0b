"""Fitting one law to many curves at once: a grid of starts, least squares from the best, then the neighbourhood.

1. All shapes of the grid and all noise models are solved in closed form (`likelihood`); the best gives robust
   weights, and once more.
2. From the best three, SciPy's least squares on the whitened weighted residuals (`descent`).
3. The curvature there gives the error ellipse, and rays from its centre across its rim are solved as well.

Grid and neighbourhood together are a surface of the likelihood from which `intervals` reads profile intervals. Many
curves that share their steps go through in one call.
"""

import numpy as np

from grpo_clinic.fitting import likelihood, surface
from grpo_clinic.fitting.descent import descend
from grpo_clinic.fitting.likelihood import RHO, Points
from grpo_clinic.fitting.shapes import Shape
from grpo_clinic.fitting.surface import RADII, LikelihoodSurface, rays
from grpo_clinic.readers.record import Floats

_STARTS, _APART = 3, 2.5
"""Shapes of the grid from which the descent starts, and how many steps of the grid they lie apart."""


def fit(shape: Shape, time: Floats, reward: Floats) -> LikelihoodSurface:
    """Fit one law to C curves [C, T] on common times [T], starting at 0; neither offset nor scale matters."""
    centre, unit = surface.own_units(reward)
    return surface.restored(_fit(shape, time, (reward - centre) / unit), centre, unit)


def _fit(shape: Shape, time: Floats, reward: Floats) -> LikelihoodSurface:
    grid = shape.grid(time)
    rising = _rising(shape, time, grid)
    whitening = likelihood.Whitening(time, reward, rising, RHO)
    weights = np.ones_like(reward)
    for _ in range(3):
        freedom = weights.sum(axis=-1) - 2 - shape.size + (rising is None)
        points = likelihood.solve(whitening, weights)
        level = likelihood.deviance(points, freedom)
        r, m = _best(level)
        theta = grid[m]
        weights = likelihood.robust_weights(_innovations(shape, time, reward, theta, points, r, m))
    if rising is None:
        return _surface(shape, time, reward, weights, theta, np.zeros((reward.shape[0], 1, 0)), points, level, freedom)
    starts = _starts(shape, time, grid, level[r, np.arange(r.size)])
    theta, covariance = descend(shape, time, reward, weights, starts, RHO[r])
    around = _neighbourhood(shape, time, theta, covariance)
    near = likelihood.Whitening(time, reward, shape.growth(time, around[..., None, :]) - 1, RHO)
    local = likelihood.solve(near, weights)
    points = likelihood.solve(whitening, weights)
    points = Points(*(_joined(a, b) for a, b in zip(_fields(points), _fields(local), strict=True)))
    shapes = np.concatenate((np.broadcast_to(grid, (reward.shape[0], *grid.shape)), around), axis=1)
    freedom = weights.sum(axis=-1) - 2 - shape.size
    return _surface(shape, time, reward, weights, theta, shapes, points, likelihood.deviance(points, freedom), freedom)


def _starts(shape: Shape, time: Floats, grid: Floats, level: Floats) -> Floats:
    """The best shapes [C, S, q] of the grid [M, q] by deviance [C, M], no two of them neighbours."""
    spacing = np.array([axis[1] - axis[0] for axis in shape.axes(time)])
    found, level = [], level.copy()
    for _ in range(_STARTS):
        found.append(grid[level.argmin(axis=-1)])
        near = np.all(np.abs(grid - found[-1][:, None, :]) < _APART * spacing, axis=-1)
        level[near] = np.inf
    return np.stack(found, axis=1)


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


def _surface(
    shape: Shape,
    time: Floats,
    reward: Floats,
    weights: Floats,
    theta: Floats,
    shapes: Floats,
    points: Points,
    level: Floats,
    freedom: Floats,
) -> LikelihoodSurface:
    r, m = _best(level)
    if shape.size:
        theta = shapes[np.arange(reward.shape[0]), m]
    plateau, amplitude, squares = (_pick(v, r, m) for v in (points.plateau, points.amplitude, points.squares))
    innovations = _innovations(shape, time, reward, theta, points, r, m)
    log_likelihood = likelihood.robust_log_likelihood(innovations, points.log_volume[r, np.arange(r.size)])
    fitted = _curve(shape, time, theta, plateau, amplitude)
    sigma = np.sqrt(squares / np.maximum(freedom, 1))
    return LikelihoodSurface(
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
