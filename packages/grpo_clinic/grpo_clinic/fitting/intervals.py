"""Profile intervals read off the surface of the likelihood.

Accepted is what lies within (n - p) ln(1 + t^2/(n - p)) of the smallest deviance, t the Student quantile: exact for a
linear model with known rho, and rho's own uncertainty widens it because every noise model is in the surface. For a
linear combination L = a plateau + b amplitude the deviance at fixed theta and rho is a parabola in L. So the set
accepted there is known in closed form, and the profile interval is the union over all accepted theta and rho. For a
function of theta alone it is the range over accepted theta.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from grpo_clinic.fitting.surface import RADII, LikelihoodSurface, rays
from grpo_clinic.readers.record import Floats


@dataclass(frozen=True)
class Interval:
    """Lower and upper ends [C]; infinite where the curve does not bound the quantity."""

    low: Floats
    high: Floats

    @property
    def bounded(self) -> np.ndarray:
        """Whether both ends are finite [C]."""
        return np.isfinite(self.low) & np.isfinite(self.high)


def quantile(surface: LikelihoodSurface, confidence: float) -> Floats:
    """Student's t [C] for a two-sided interval, larger by p/n: the order of the curvature that a profile neglects."""
    parameters = 2 + surface.shape.size
    t = special.stdtrit(np.maximum(surface.freedom, 1), 0.5 * (1 + confidence))
    return np.asarray(t * (1 + parameters / np.maximum(surface.freedom + parameters, 1)))


def rim(surface: LikelihoodSurface, confidence: float) -> Floats:
    """The deviance above its minimum [C] at which a profile interval ends."""
    freedom = np.maximum(surface.freedom, 1)
    return np.asarray(freedom * np.log1p(quantile(surface, confidence) ** 2 / freedom))


def slack(surface: LikelihoodSurface, confidence: float) -> Floats:
    """How much residual sum of squares [R, C, M] each point has left before it is rejected; negative if rejected."""
    freedom = np.maximum(surface.freedom, 1)
    threshold = surface.deviance.min(axis=(0, 2)) + rim(surface, confidence)
    excess = (threshold[:, None] - surface.deviance) / freedom[:, None]
    return surface.points.squares * np.expm1(np.clip(excess, -50, 50))


def linear(
    surface: LikelihoodSurface, a: Floats | float, b: Floats | float, confidence: float = 0.9, extra: float = 0.0
) -> Interval:
    """Interval of a * plateau + b * amplitude; `a`, `b` numbers or [C, M] (shape by shape, e.g. the value at a step).

    `extra` adds the noise of a measurement, in units of its variance over that of one logged point: 0 for the curve
    itself, 1/m for the mean of m future points. Unbounded where accepted shapes lie at the far end of the grid.
    """
    points = surface.points
    centre = a * points.plateau + b * points.amplitude
    variance = np.asarray(a * a * points.v11 + 2 * a * b * points.v12 + b * b * points.v22) + extra
    room = slack(surface, confidence)
    half = np.sqrt(np.maximum(room, 0) * variance)
    low = np.where(room >= 0, centre - half, np.inf).min(axis=(0, 2))
    high = np.where(room >= 0, centre + half, -np.inf).max(axis=(0, 2))
    return Interval(low, high)


def of_theta(surface: LikelihoodSurface, values: Floats, confidence: float = 0.9) -> Interval:
    """Interval of a function of theta, given its `values` [C, M] at the surface's shapes.

    Along each ray from the best fit the square root of the excess deviance is nearly straight, so its crossing of the
    threshold is interpolated; accepted shapes of the grid elsewhere count as they are.
    """
    accepted = (slack(surface, confidence) >= 0).any(axis=0)
    crossing = _crossings(surface, values, confidence)
    low = np.minimum(np.where(accepted, values, np.inf).min(axis=-1), crossing.min(axis=-1))
    high = np.maximum(np.where(accepted, values, -np.inf).max(axis=-1), crossing.max(axis=-1))
    return Interval(low, high)


def at_bounds(surface: LikelihoodSurface, confidence: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Whether accepted shapes lie at the lower and at the upper end of each axis of theta, [C, q] each."""
    accepted = np.expand_dims((slack(surface, confidence) >= 0).any(axis=0), -1)
    low, high = surface.shape.bounds(surface.time)
    below, above = surface.shapes <= low + 1e-9, surface.shapes >= high - 1e-9
    return np.any(accepted & below, axis=1), np.any(accepted & above, axis=1)


def _crossings(surface: LikelihoodSurface, values: Floats, confidence: float) -> Floats:
    """`values` where each ray [C, rays] leaves the accepted set, or at the ray's end if it does not."""
    count = len(rays(surface.shape)) * RADII.size
    profile = surface.deviance.min(axis=0)
    limit = np.sqrt(rim(surface, confidence))[:, None]
    height = np.sqrt(np.maximum(profile - profile.min(axis=-1, keepdims=True), 0))

    def along(array: Floats) -> Floats:
        outwards = array[:, -count:].reshape(array.shape[0], -1, RADII.size)
        centre = np.broadcast_to(array[:, -count - 1][:, None, None], (*outwards.shape[:2], 1))
        return np.concatenate((centre, outwards), axis=-1)

    heights, found = along(height), along(values)
    outside = heights > limit[:, :, None]
    outside[..., 0] = False
    last = np.where(outside.any(axis=-1), outside.argmax(axis=-1), RADII.size)
    before = np.maximum(last - 1, 0)

    def take(array: Floats, place: np.ndarray) -> Floats:
        return np.take_along_axis(array, place[..., None], axis=-1)[..., 0]

    inner, outer = take(heights, before), take(heights, last)
    share = np.clip((limit - inner) / np.where(outer > inner, outer - inner, 1), 0, 1)
    return take(found, before) + share * (take(found, last) - take(found, before))
