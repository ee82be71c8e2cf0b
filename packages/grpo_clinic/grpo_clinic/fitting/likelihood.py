"""Gaussian likelihood with first-order autocorrelated noise, for many curves and many shapes at once.

Noise: correlation rho^(gap/interval) between neighbours (AR(1); a gap in the log weakens it). Differencing
y_i - phi_i y_{i-1}, divided by sqrt(1 - phi_i^2), makes it white; plateau and amplitude are then a weighted linear
problem in two unknowns, solved in closed form for every theta of a grid by matrix products: no iteration.

With S = X'WX and residual sum of squares Q, up to constants and per theta

    -2 ln L_R = sum ln(1 - phi_i^2) + ln det S + (n - p) ln Q,

the restricted likelihood (Patterson and Thompson 1971), whose rho does not suffer from the fitted mean; p counts
plateau, amplitude and theta. ln det S enters at the best theta of each rho only: it weighs noise models, not shapes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from grpo_clinic.readers.median import median
from grpo_clinic.readers.record import SIGMA_OF_MAD, Floats

RHO = np.round(np.arange(-0.3, 0.91, 0.1), 2)
"""Autocorrelations that are tried."""
_HUBER = 2.5
"""Robust standard deviations from which a residual counts less (95 % efficiency would be 1.345)."""
_SCALE_STEPS = 50
"""Of the fixed point of the likeliest scale, which shrinks the distance to it by the share of points in the tails."""
_KEPT = 2**24
"""Bytes of whitened shapes that are kept: 128 points on every grid of ours."""
_NO_NOISE = 1e-150
"""Scale of residuals that are all zero; its square is still a number."""


@dataclass(frozen=True)
class Points:
    """Solutions at M shapes for R noise models and C curves: everything is [R, C, M] unless said.

    `plateau`, `amplitude`, residual sum `squares`, the inverse 2 x 2 matrix (`v11`, `v12`, `v22`), `log_determinant`
    ln det S, and `log_volume` [R, C] = sum ln(1 - phi_i^2).
    """

    plateau: Floats
    amplitude: Floats
    squares: Floats
    v11: Floats
    v12: Floats
    v22: Floats
    log_volume: Floats
    log_determinant: Floats


def correlations(time: Floats, rho: float) -> Floats:
    """phi_i [T], 0 first: rho to the power of the gap in logging intervals, sign kept."""
    gaps = np.diff(time) / median(np.diff(time))
    return np.concatenate(([0.0], np.sign(rho) * np.abs(rho) ** np.maximum(gaps, 1e-9)))


def whiten(values: Floats, phi: Floats) -> Floats:
    """Innovations [..., T] of unit-variance noise: (y_i - phi_i y_{i-1}) / sqrt(1 - phi_i^2)."""
    made = np.empty(values.shape)
    made[..., 0], later = values[..., 0], made[..., 1:]
    np.multiply(phi[..., 1:], values[..., :-1], out=later)
    np.subtract(values[..., 1:], later, out=later)
    made /= np.sqrt(1 - phi * phi)
    return made


class Whitened(NamedTuple):
    """What one noise model makes of C curves and M shapes: `reward` [C, T], `one` [T] of the plateau, `rising` as
    given, `log_volume` = sum ln(1 - phi_i^2)."""

    reward: Floats
    one: Floats
    rising: Floats | None
    log_volume: float


class Whitening:
    """Curves and shapes whitened by each noise model in turn, for any weights.

    `time` [T], `reward` [C, T], `rising` = g - 1 as [M, T] (shared) or [C, M, T] (own shapes), None for the constant
    law. What is made is kept for the next round of weights, if it is small.
    """

    def __init__(self, time: Floats, reward: Floats, rising: Floats | None, rhos: Floats) -> None:
        self._data, self._rhos = (time, reward, rising), rhos
        self._kept: dict[float, Whitened] = {}
        self._keeps = rising is None or rhos.size * rising.nbytes <= _KEPT

    def __iter__(self) -> Iterator[Whitened]:
        for rho in self._rhos.tolist():
            made = self._kept.get(rho) or self._made(rho)
            if self._keeps:
                self._kept[rho] = made
            yield made

    def _made(self, rho: float) -> Whitened:
        time, reward, rising = self._data
        phi = correlations(time, rho)
        risen = None if rising is None else whiten(rising, phi)
        return Whitened(
            whiten(reward, phi), whiten(np.ones_like(time), phi), risen, float(np.sum(np.log1p(-phi * phi)))
        )


def solve(whitening: Whitening, weights: Floats) -> Points:
    """Plateau and amplitude for every noise model, curve and shape, the points weighted by `weights` [C, T]."""
    found = [_solve_one(whitened, weights) for whitened in whitening]
    return Points(*(np.stack(parts) for parts in zip(*found, strict=True)))


def _solve_one(whitened: Whitened, weights: Floats) -> tuple[Floats, ...]:
    y, one, h, volume = whitened
    log_volume = np.full(weights.shape[0], volume)
    yy = np.sum(weights * y * y, axis=-1)[:, None]
    ee = (weights @ (one * one))[:, None]
    ye = ((weights * y) @ one)[:, None]
    if h is None:
        zero = np.zeros_like(ee)
        plateau = ye / ee
        return plateau, zero, np.maximum(yy - plateau * ye, 1e-300), 1 / ee, zero, zero, log_volume, np.log(ee)
    product = "ct,mt->cm" if h.ndim == 2 else "ct,cmt->cm"
    eh = np.einsum(product, weights * one, h, optimize=True)
    hh = np.einsum(product, weights, h * h, optimize=True)
    yh = np.einsum(product, weights * y, h, optimize=True)
    determinant = np.maximum(ee * hh - eh * eh, 1e-12 * ee * hh + 1e-300)
    plateau = (hh * ye - eh * yh) / determinant
    amplitude = (ee * yh - eh * ye) / determinant
    squares = np.maximum(yy - plateau * ye - amplitude * yh, 1e-12 * yy + 1e-300)
    v11, v12, v22 = hh / determinant, -eh / determinant, np.broadcast_to(ee, hh.shape) / determinant
    return plateau, amplitude, squares, v11, v12, v22, log_volume, np.log(determinant)


def deviance(points: Points, freedom: Floats) -> Floats:
    """-2 ln L_R [R, C, M] of every point; `freedom` [C] = effective number of points less parameters."""
    best = points.squares.argmin(axis=-1)[..., None]
    determinant = np.take_along_axis(points.log_determinant, best, axis=-1)
    return points.log_volume[..., None] + determinant + freedom[:, None] * np.log(points.squares)


def robust_weights(innovations: Floats) -> Floats:
    """Huber's weights [C, T] of whitened residuals: 1 up to 2.5 robust standard deviations, falling as 1/|z| beyond."""
    away = np.abs(innovations - np.median(innovations, axis=-1, keepdims=True))
    spread = SIGMA_OF_MAD * np.median(away, axis=-1, keepdims=True)
    z = away / np.maximum(spread, 1e-9 * away.max(axis=-1, keepdims=True) + 1e-300)
    return np.where(z > _HUBER, _HUBER / np.maximum(z, _HUBER), 1.0)


def robust_log_likelihood(innovations: Floats, log_volume: Floats) -> Floats:
    """ln L [C] of whitened residuals [C, T] under Huber's density (normal, tails exponential) at its likeliest scale.

    One density for all laws: with robust weights instead, a law that explains away more points would win by it.
    `log_volume` [C] as in `Points`; equal to the normal likelihood where nothing lies beyond 2.5 scales, up to the
    constant of the tails.
    """
    away = np.abs(innovations)
    scale = np.sqrt(np.mean(away**2, axis=-1, keepdims=True))
    for _ in range(_SCALE_STEPS):
        inside = np.minimum(away, _HUBER * scale)
        scale = np.sqrt(np.mean(inside * away, axis=-1, keepdims=True))
    scale = np.maximum(scale, _NO_NOISE)
    z = away / scale
    cost = np.where(z <= _HUBER, 0.5 * z * z, _HUBER * (z - 0.5 * _HUBER))
    spread = np.log(2 * np.pi * scale[..., 0] ** 2)
    return -0.5 * (log_volume + innovations.shape[-1] * spread) - cost.sum(axis=-1)
