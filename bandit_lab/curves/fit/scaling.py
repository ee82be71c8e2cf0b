"""Curves in units of their own: the fit sees numbers of order one around zero, whatever offset and scale the log has.

The sums of squares of the fit are differences of sums; with a common offset of 10^6 nothing but rounding is left of
them. The unit is a power of two, so that dividing by it rounds nothing.
"""

from dataclasses import replace

import numpy as np

from bandit_lab.curves.fit.picture import Picture
from bandit_lab.curves.record import Floats

_NOTHING = 1e-100
"""Noise of a curve that does not move: what keeps logarithms finite."""


def of(reward: Floats) -> tuple[Floats, Floats]:
    """(centre, unit) [C, 1] of curves [C, T]: the median, and the power of two below the largest distance from it."""
    centre = np.median(reward, axis=-1, keepdims=True)
    largest = np.abs(reward - centre).max(axis=-1, keepdims=True)
    unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)
    return centre, np.where(largest > 0, unit, 1.0)


def restored(picture: Picture, centre: Floats, unit: Floats) -> Picture:
    """The picture of (reward - centre) / unit as that of the reward itself."""
    points, shift, factor = picture.points, centre[:, 0], unit[:, 0]
    noise = np.where(picture.sigma > _NOTHING, factor * picture.sigma, 0.0)
    points = replace(
        points,
        plateau=centre + unit * points.plateau,
        amplitude=unit * points.amplitude,
        squares=np.where(noise[:, None] > 0, unit**2 * points.squares, 0.0),
    )
    return replace(
        picture,
        plateau=shift + factor * picture.plateau,
        amplitude=factor * picture.amplitude,
        sigma=noise,
        points=points,
        deviance=picture.deviance + 2 * picture.freedom[:, None] * np.log(unit),
        fitted=centre + unit * picture.fitted,
        log_likelihood=picture.log_likelihood - picture.time.size * np.log(factor),
    )
