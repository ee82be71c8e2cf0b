"""Profile intervals read off the surface of the likelihood.

Accepted is what lies within (n - p) ln(1 + t^2/(n - p)) of the smallest deviance, t the Student quantile: exact for a
linear model with known rho, and rho's own uncertainty widens it because every noise model is in the surface. For a
linear combination L = a plateau + b amplitude the deviance at fixed theta and rho is a parabola in L. So the set
accepted there is known in closed form, and the profile interval is the union over all accepted theta and rho. For a
function of theta alone it is the range over accepted theta.
"""

import numpy as np
from scipy import special

from grpo_clinic.fitting.engine import RADII, LikelihoodSurface, rays
from grpo_clinic.readers.record import Floats

Interval = tuple[float, float]
"""Lower and upper end; infinite where the curve does not bound the quantity."""


def quantile(surface: LikelihoodSurface, confidence: float) -> float:
    """Student's t for a two-sided interval, larger by p/n: the order of the curvature that a profile neglects."""
    parameters = 2 + surface.shape.size
    t = float(special.stdtrit(max(surface.freedom, 1), 0.5 * (1 + confidence)))
    return t * (1 + parameters / max(surface.freedom + parameters, 1))


def _rim(surface: LikelihoodSurface, confidence: float) -> float:
    """The deviance above its minimum at which a profile interval ends."""
    freedom = max(surface.freedom, 1)
    return float(freedom * np.log1p(quantile(surface, confidence) ** 2 / freedom))


def _slack(surface: LikelihoodSurface, confidence: float) -> Floats:
    """How much residual sum of squares [R, M] each point has left before it is rejected; negative if rejected."""
    excess = surface.deviance.min() + _rim(surface, confidence) - surface.deviance
    return surface.points.squares * np.expm1(np.clip(excess / max(surface.freedom, 1), -50, 50))


def linear(surface: LikelihoodSurface, a: Floats | float, b: Floats | float, confidence: float = 0.9) -> Interval:
    """Interval of a * plateau + b * amplitude; `a`, `b` numbers or [M] (shape by shape, e.g. the value at a step).

    Unbounded where accepted shapes lie at the far end of the grid.
    """
    points, room = surface.points, _slack(surface, confidence)
    centre = a * points.plateau + b * points.amplitude
    variance = np.asarray(a * a * points.v11 + 2 * a * b * points.v12 + b * b * points.v22)
    half = np.sqrt(np.maximum(room, 0) * variance)
    low = np.where(room >= 0, centre - half, np.inf).min()
    return float(low), float(np.where(room >= 0, centre + half, -np.inf).max())


def of_theta(surface: LikelihoodSurface, values: Floats, confidence: float = 0.9) -> Interval:
    """Interval of a function of theta, given its `values` [M] at the surface's shapes.

    Along each ray from the best fit the square root of the excess deviance is nearly straight, so its crossing of the
    threshold is interpolated; accepted shapes of the grid elsewhere count as they are.
    """
    reached = np.concatenate((values[_accepted(surface, confidence)], _crossings(surface, values, confidence)))
    return float(reached.min()), float(reached.max())


def _accepted(surface: LikelihoodSurface, confidence: float) -> np.ndarray:
    return np.any(_slack(surface, confidence) >= 0, axis=0)


def at_bounds(surface: LikelihoodSurface, confidence: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Whether accepted shapes lie at the lower and at the upper end of each axis of theta, [q] each."""
    low, high = surface.shape.bounds(surface.time)
    shapes = surface.shapes[_accepted(surface, confidence)]
    return np.any(shapes <= low + 1e-9, axis=0), np.any(shapes >= high - 1e-9, axis=0)


def _crossings(surface: LikelihoodSurface, values: Floats, confidence: float) -> Floats:
    """`values` where each ray [rays] leaves the accepted set, or at the ray's end if it does not."""
    count = len(rays(surface.shape)) * RADII.size
    profile = surface.deviance.min(axis=0)
    limit = np.sqrt(_rim(surface, confidence))
    height = np.sqrt(np.maximum(profile - profile.min(), 0))

    def along(array: Floats) -> Floats:
        outwards = array[-count:].reshape(-1, RADII.size)
        return np.concatenate((np.full((len(outwards), 1), array[-count - 1]), outwards), axis=-1)

    heights, positions = along(height), along(values)
    outside = heights > limit
    outside[:, 0] = False
    last = np.where(outside.any(axis=-1), outside.argmax(axis=-1), RADII.size)
    before, every = np.maximum(last - 1, 0), np.arange(len(last))
    inner, outer = heights[every, before], heights[every, last]
    share = np.clip((limit - inner) / np.where(outer > inner, outer - inner, 1), 0, 1)
    return positions[every, before] + share * (positions[every, last] - positions[every, before])
