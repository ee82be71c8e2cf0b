"""Fitting one law to one curve: a grid of starts, least squares from the best, then the neighbourhood.

1. All shapes of the grid and all noise models are solved in closed form (`likelihood`); the best gives robust
   weights, and once more.
2. From the best three, SciPy's least squares on the whitened weighted residuals after their projection on plateau and
   amplitude (variable projection; Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973): steps are taken in theta alone.
3. The curvature there gives the error ellipse, and rays from its centre across its rim are solved as well.

Grid and neighbourhood together are a surface of the likelihood from which `intervals` reads profile intervals.

The fit sees curves in units of their own: numbers of order one around zero, whatever offset and scale the log has. Its
sums of squares are differences of sums; with a common offset of 10^6 nothing but rounding is left of them. The unit is
a power of two, so that dividing by it rounds nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from grpo_clinic.fitting import likelihood
from grpo_clinic.fitting.likelihood import RHO, Points
from grpo_clinic.fitting.shapes import Shape
from grpo_clinic.readers.record import Floats

RADII = 1.68 * np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.03, 1.1, 1.3, 1.6, 2.2])
"""Distances from the best fit along each ray [standard errors], dense where a 90 % interval ends."""
_DIRECTIONS = 16
_STARTS, _APART = 3, 2.5
"""Shapes of the grid from which the descent starts, and how many steps of the grid they lie apart."""
_RIDGE = 1e-10
_NOTHING = 1e-100
"""Noise of a curve that does not move: what keeps logarithms finite."""


@dataclass(frozen=True)
class LikelihoodSurface:
    """The likelihood of one law around its best fit to one curve.

    `theta` [q] best, `rho`, `plateau`, `amplitude`, `sigma` there, `weights` [T]; `points` [R, M] with their shapes
    `shapes` [M, q] and `deviance` [R, M]; `freedom` effective points less parameters; `fitted` [T]; `log_likelihood`
    under one robust density for all laws, for information criteria.
    """

    shape: Shape
    time: Floats
    theta: Floats
    rho: float
    plateau: float
    amplitude: float
    sigma: float
    weights: Floats
    shapes: Floats
    points: Points
    deviance: Floats
    freedom: float
    fitted: Floats
    log_likelihood: float

    @property
    def aicc(self) -> float:
        """Akaike's criterion with the small-sample term; counted are theta, plateau, amplitude, sigma and rho."""
        k, n = self.shape.size + (2 if self.shape.size else 1) + 2, self.time.size
        correction = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
        return -2 * self.log_likelihood + 2 * k + correction


def own_units(reward: Floats) -> tuple[float, float]:
    """(centre, unit) of a curve [T]: the median, and the power of two below the largest distance from it."""
    centre = float(np.median(reward))
    largest = float(np.abs(reward - centre).max())
    return centre, float(np.ldexp(1.0, np.frexp(largest)[1] - 1)) if largest > 0 else 1.0


def fit(shape: Shape, time: Floats, reward: Floats) -> LikelihoodSurface:
    """Fit one law to a curve [T] on times [T] that start at 0; neither offset nor scale matters."""
    centre, unit = own_units(reward)
    own, shapes, weights = (reward - centre) / unit, shape.grid(time), np.ones_like(reward)

    def solved(freedom: float) -> tuple[Points, Floats, int, int]:
        """Solutions and deviance at `shapes`, the noise model and the shape of the smallest."""
        points = likelihood.solve(
            time, own, shape.growth(time, shapes[:, None, :]) - 1 if shape.size else None, weights
        )
        level = points.deviance(freedom)
        r, m = np.unravel_index(level.argmin(), level.shape)
        return points, level, int(r), int(m)

    def curve() -> Floats:
        rising = shape.growth(time, shapes[m][None, :]) - 1 if shape.size else np.zeros_like(time)
        return points.plateau[r, m] + points.amplitude[r, m] * rising

    def innovations() -> Floats:
        return likelihood.whiten(own - curve(), likelihood.correlations(time, float(RHO[r])))

    count = 2 + shape.size if shape.size else 1
    for _ in range(3):
        freedom = float(weights.sum()) - count
        points, level, r, m = solved(freedom)
        weights = likelihood.robust_weights(innovations())
    if shape.size:
        starts = _starts(shape, time, shapes, level[r])
        theta, covariance = _descended(shape, time, own, weights, starts, float(RHO[r]))
        shapes = np.concatenate((shapes, _neighbourhood(shape, time, theta, covariance)))
        freedom = float(weights.sum()) - count
        points, level, r, m = solved(freedom)
    noise = float(np.sqrt(points.squares[r, m] / max(freedom, 1)))
    moves = noise > _NOTHING
    return LikelihoodSurface(
        shape,
        time,
        shapes[m],
        float(RHO[r]),
        centre + unit * float(points.plateau[r, m]),
        unit * float(points.amplitude[r, m]),
        unit * noise if moves else 0.0,
        weights,
        shapes,
        points._replace(
            plateau=centre + unit * points.plateau,
            amplitude=unit * points.amplitude,
            squares=unit**2 * points.squares if moves else np.zeros_like(points.squares),
        ),
        level + 2 * freedom * np.log(unit),
        freedom,
        centre + unit * curve(),
        likelihood.robust_log_likelihood(innovations(), float(points.log_volume[r])) - time.size * np.log(unit),
    )


def _starts(shape: Shape, time: Floats, grid: Floats, level: Floats) -> list[Floats]:
    """The best shapes [q] of the grid [M, q] by deviance [M], no two of them neighbours."""
    spacing = np.array([axis[1] - axis[0] for axis in shape.axes(time)])
    starts, level = [], level.copy()
    for _ in range(_STARTS):
        starts.append(grid[level.argmin()])
        level[np.all(np.abs(grid - starts[-1]) < _APART * spacing, axis=-1)] = np.inf
    return starts


def _descended(
    shape: Shape, time: Floats, reward: Floats, weights: Floats, starts: list[Floats], rho: float
) -> tuple[Floats, Floats]:
    """(theta [q], its covariance [q, q]) at the lowest of the minima near each start."""
    root, phi = np.sqrt(weights), likelihood.correlations(time, rho)
    target, ones = (root * likelihood.whiten(values, phi) for values in (reward, np.ones_like(time)))

    def residual(theta: Floats) -> Floats:
        linear = np.stack((ones, root * likelihood.whiten(shape.growth(time, theta) - 1, phi)), axis=-1)
        return np.asarray(target - linear @ np.linalg.lstsq(linear, target, rcond=1e-14)[0])

    low, high = shape.bounds(time)
    inside = [np.clip(start, low + 1e-9 * (high - low), high - 1e-9 * (high - low)) for start in starts]
    every = [least_squares(residual, start, "3-point", (low, high), xtol=1e-9, ftol=1e-10) for start in inside]
    best = min(every, key=lambda one: float(one.cost))
    normal, freedom = best.jac.T @ best.jac, max(float(weights.sum()) - 2 - shape.size, 1.0)
    size = np.sqrt(np.diag(normal))
    size = np.maximum(size, 1e-9 * size.max() + 1e-60)
    scale = np.outer(size, size)  # with a ridge where a direction is not seen at all
    inverse = np.linalg.inv(normal / scale + _RIDGE * np.eye(len(size))) / scale
    return best.x, inverse * (2 * best.cost / freedom)


def rays(shape: Shape) -> Floats:
    """Unit vectors [rays, q] along which the neighbourhood of the best fit is looked at."""
    if shape.size == 1:
        return np.array([[1.0], [-1.0]])
    angle = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    return np.stack((np.cos(angle), np.sin(angle)), axis=-1)


def _neighbourhood(shape: Shape, time: Floats, theta: Floats, covariance: Floats) -> Floats:
    """Shapes [1 + rays * radii, q]: theta itself, then outwards along each ray in turn, straight in `shape.bend`."""
    low, high = shape.bounds(time)
    step = 1e-4 * np.eye(shape.size)
    slopes = [(shape.bend(theta, theta + h) - shape.bend(theta, theta - h)) / 2e-4 for h in step]
    inverse = np.linalg.inv(np.stack(slopes, axis=-1))
    values, axes = np.linalg.eigh(inverse @ covariance @ inverse.T)
    spread = np.clip(np.sqrt(np.maximum(values, 0)), 1e-6, 1.0)
    units = (rays(shape)[:, None, :] * RADII[:, None]).reshape(-1, shape.size)
    shifts = np.concatenate((np.zeros((1, shape.size)), units)) @ (axes * spread).T
    return np.clip(shape.bend(theta, theta + shifts), low, high)
