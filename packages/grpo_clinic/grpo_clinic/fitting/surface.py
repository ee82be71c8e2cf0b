"""What a fit of one law leaves behind: the likelihood around its best shape, from which the intervals are read.

The fit sees curves in units of their own: numbers of order one around zero, whatever offset and scale the log has. Its
sums of squares are differences of sums; with a common offset of 10^6 nothing but rounding is left of them. The unit is
a power of two, so that dividing by it rounds nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from grpo_clinic.fitting.likelihood import Points
from grpo_clinic.fitting.shapes import Shape
from grpo_clinic.readers.record import Floats

RADII = 1.68 * np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.03, 1.1, 1.3, 1.6, 2.2])
"""Distances from the best fit along each ray [standard errors], dense where a 90 % interval ends."""
_DIRECTIONS = 16
_NOTHING = 1e-100
"""Noise of a curve that does not move: what keeps logarithms finite."""


@dataclass(frozen=True)
class LikelihoodSurface:
    """The likelihood of one law around its best fit, for C curves.

    `theta` [C, q] best, `rho` [C], `plateau`, `amplitude`, `sigma` [C] there, `weights` [C, T]; `points` [R, C, M]
    with their shapes `shapes` [C, M, q] and `deviance` [R, C, M]; `freedom` [C] effective points less parameters;
    `fitted` [C, T]; `log_likelihood` [C] under one robust density for all laws, for information criteria.
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


def rays(shape: Shape) -> Floats:
    """Unit vectors [rays, q] along which the neighbourhood of the best fit is looked at."""
    if shape.size == 1:
        return np.array([[1.0], [-1.0]])
    angle = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    return np.stack((np.cos(angle), np.sin(angle)), axis=-1)


def own_units(reward: Floats) -> tuple[Floats, Floats]:
    """(centre, unit) [C, 1] of curves [C, T]: the median, and the power of two below the largest distance from it."""
    centre = np.median(reward, axis=-1, keepdims=True)
    largest = np.abs(reward - centre).max(axis=-1, keepdims=True)
    unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)
    return centre, np.where(largest > 0, unit, 1.0)


def restored(surface: LikelihoodSurface, centre: Floats, unit: Floats) -> LikelihoodSurface:
    """The surface of (reward - centre) / unit as that of the reward itself."""
    points, shift, factor = surface.points, centre[:, 0], unit[:, 0]
    noise = np.where(surface.sigma > _NOTHING, factor * surface.sigma, 0.0)
    points = replace(
        points,
        plateau=centre + unit * points.plateau,
        amplitude=unit * points.amplitude,
        squares=np.where(noise[:, None] > 0, unit**2 * points.squares, 0.0),
    )
    return replace(
        surface,
        plateau=shift + factor * surface.plateau,
        amplitude=factor * surface.amplitude,
        sigma=noise,
        points=points,
        deviance=surface.deviance + 2 * surface.freedom[:, None] * np.log(unit),
        fitted=centre + unit * surface.fitted,
        log_likelihood=surface.log_likelihood - surface.time.size * np.log(factor),
    )
