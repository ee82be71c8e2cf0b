"""SciPy's bounded least squares from each start, plateau and amplitude solved for at every shape.

Residuals are those of the whitened, weighted curve after its projection on the plateau and the amplitude (variable
projection; Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973), so that steps are taken in theta alone.
"""

import numpy as np
from scipy.optimize import least_squares

from grpo_clinic.fitting import likelihood
from grpo_clinic.fitting.shapes import Shape
from grpo_clinic.readers.record import Floats

_RIDGE = 1e-10


def descend(
    shape: Shape, time: Floats, reward: Floats, weights: Floats, starts: Floats, rho: Floats
) -> tuple[Floats, Floats]:
    """(theta [C, q], its covariance [C, q, q]) at the lowest of the minima near each start [C, S, q], for curves [C, T]
    with Huber's `weights` [C, T] and autocorrelation `rho` [C]."""
    minima = [_lowest(shape, time, *one) for one in zip(reward, weights, starts, rho, strict=True)]
    theta, covariance = zip(*minima, strict=True)
    return np.stack(theta), np.stack(covariance)


def _lowest(
    shape: Shape, time: Floats, reward: Floats, weights: Floats, starts: Floats, rho: float
) -> tuple[Floats, Floats]:
    root, phi = np.sqrt(weights), likelihood.correlations(time, float(rho))
    target, ones = (root * likelihood.whiten(values, phi) for values in (reward, np.ones_like(time)))

    def residual(theta: Floats) -> Floats:
        linear = np.stack((ones, root * likelihood.whiten(shape.growth(time, theta) - 1, phi)), axis=-1)
        return np.asarray(target - linear @ np.linalg.lstsq(linear, target, rcond=1e-14)[0])

    low, high = shape.bounds(time)
    inside = np.clip(starts, low + 1e-9 * (high - low), high - 1e-9 * (high - low))
    every = [least_squares(residual, start, "3-point", (low, high), xtol=1e-9, ftol=1e-10) for start in inside]
    best = min(every, key=lambda one: float(one.cost))
    freedom = max(float(weights.sum()) - 2 - shape.size, 1.0)
    return best.x, _inverse(best.jac.T @ best.jac) * (2 * best.cost / freedom)


def _inverse(normal: Floats) -> Floats:
    """Inverse [q, q], with a ridge where a direction is not seen at all."""
    size = np.sqrt(np.diag(normal))
    size = np.maximum(size, 1e-9 * size.max() + 1e-60)
    scale = np.outer(size, size)
    return np.asarray(np.linalg.inv(normal / scale + _RIDGE * np.eye(len(size))) / scale)
