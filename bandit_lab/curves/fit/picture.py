"""What a fit of one law leaves behind: the likelihood around its best shape, from which the intervals are read."""

from dataclasses import dataclass

import numpy as np

from bandit_lab.curves.fit.likelihood import Points
from bandit_lab.curves.fit.shapes import Shape
from bandit_lab.curves.record import Floats

RADII = 1.68 * np.array([0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.03, 1.1, 1.3, 1.6, 2.2])
"""Distances from the best fit along each ray [standard errors], dense where a 90 % interval ends."""
_DIRECTIONS = 16


@dataclass(frozen=True)
class Picture:
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
