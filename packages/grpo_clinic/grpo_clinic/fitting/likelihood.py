"""Gaussian likelihood with first-order autocorrelated noise, for many shapes at once.

Noise: correlation rho^(gap/interval) between neighbours (AR(1); a gap in the log weakens it). Differencing
y_i - phi_i y_{i-1}, divided by sqrt(1 - phi_i^2), makes it white; plateau and amplitude are then a weighted linear
problem in two unknowns, solved in closed form for every theta of a grid by matrix products: no iteration.

With S = X'WX and residual sum of squares Q, up to constants and per theta

    -2 ln L_R = sum ln(1 - phi_i^2) + ln det S + (n - p) ln Q,

the restricted likelihood (Patterson and Thompson 1971), whose rho does not suffer from the fitted mean; p counts
plateau, amplitude and theta. ln det S enters at the best theta of each rho only: it weighs noise models, not shapes.
"""

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
_NO_NOISE = 1e-150
"""Scale of residuals that are all zero; its square is still a number."""


class Points(NamedTuple):
    """Solutions at M shapes for R noise models: everything is [R, M] unless said.

    `plateau`, `amplitude`, residual sum `squares`, the inverse 2 x 2 matrix (`v11`, `v12`, `v22`), `log_determinant`
    ln det S, and `log_volume` [R] = sum ln(1 - phi_i^2).
    """

    plateau: Floats
    amplitude: Floats
    squares: Floats
    v11: Floats
    v12: Floats
    v22: Floats
    log_determinant: Floats
    log_volume: Floats

    def deviance(self, freedom: float) -> Floats:
        """-2 ln L_R [R, M] of every point; `freedom` = effective number of points less parameters."""
        best = self.squares.argmin(axis=-1)[:, None]
        determinant = np.take_along_axis(self.log_determinant, best, axis=-1)
        return self.log_volume[:, None] + determinant + freedom * np.log(self.squares)


def correlations(time: Floats, rho: float) -> Floats:
    """phi_i [T], 0 first: rho to the power of the gap in logging intervals, sign kept."""
    gaps = np.diff(time) / median(np.diff(time))
    return np.concatenate(([0.0], np.sign(rho) * np.abs(rho) ** np.maximum(gaps, 1e-9)))


def whiten(values: Floats, phi: Floats) -> Floats:
    """Innovations [..., T] of unit-variance noise: (y_i - phi_i y_{i-1}) / sqrt(1 - phi_i^2)."""
    innovations = np.empty(values.shape)
    innovations[..., 0], later = values[..., 0], innovations[..., 1:]
    np.multiply(phi[1:], values[..., :-1], out=later)
    np.subtract(values[..., 1:], later, out=later)
    innovations /= np.sqrt(1 - phi * phi)
    return innovations


def solve(time: Floats, reward: Floats, rising: Floats | None, weights: Floats, rhos: Floats = RHO) -> Points:
    """Plateau and amplitude for every noise model and shape, the points of the reward [T] weighted by `weights` [T].

    rising: g - 1 of the shapes [M, T], None for the constant law.
    """
    solutions = [_solve_one(reward, rising, weights, correlations(time, float(rho))) for rho in rhos]
    return Points(*(np.stack(parts) for parts in zip(*solutions, strict=True)))


def _solve_one(reward: Floats, rising: Floats | None, weights: Floats, phi: Floats) -> tuple[Floats, ...]:
    y, one = whiten(reward, phi), whiten(np.ones_like(reward), phi)
    volume = np.sum(np.log1p(-phi * phi))
    yy, ee, ye = (weights * y) @ y, weights @ (one * one), (weights * y) @ one
    if rising is None:
        plateau, zero = ye / ee, np.zeros(1)
        squares = np.maximum(yy - plateau * ye, 1e-300)
        return *(x + zero for x in (plateau, zero, squares, 1 / ee, zero, zero, np.log(ee))), volume
    h = whiten(rising, phi)
    eh, yh, hh = h @ (weights * one), h @ (weights * y), (h * h) @ weights
    determinant = np.maximum(ee * hh - eh * eh, 1e-12 * ee * hh + 1e-300)
    plateau = (hh * ye - eh * yh) / determinant
    amplitude = (ee * yh - eh * ye) / determinant
    squares = np.maximum(yy - plateau * ye - amplitude * yh, 1e-12 * yy + 1e-300)
    inverse = hh / determinant, -eh / determinant, ee / determinant
    return plateau, amplitude, squares, *inverse, np.log(determinant), volume


def robust_weights(innovations: Floats) -> Floats:
    """Huber's weights [T] of whitened residuals: 1 up to 2.5 robust standard deviations, falling as 1/|z| beyond."""
    away = np.abs(innovations - np.median(innovations))
    z = away / max(SIGMA_OF_MAD * median(away), 1e-9 * float(away.max()) + 1e-300)
    return np.where(z > _HUBER, _HUBER / np.maximum(z, _HUBER), 1.0)


def robust_log_likelihood(innovations: Floats, log_volume: float) -> float:
    """ln L of whitened residuals [T] under Huber's density (normal, tails exponential) at its likeliest scale.

    One density for all laws: with robust weights instead, a law that explains away more points would win by it.
    Equal to the normal likelihood where nothing lies beyond 2.5 scales, up to the constant of the tails.
    """
    away = np.abs(innovations)
    scale = np.sqrt(np.mean(away**2))
    for _ in range(_SCALE_STEPS):
        scale = np.sqrt(np.mean(np.minimum(away, _HUBER * scale) * away))
    scale = max(float(scale), _NO_NOISE)
    z = away / scale
    cost = np.where(z <= _HUBER, 0.5 * z * z, _HUBER * (z - 0.5 * _HUBER))
    return float(-0.5 * (log_volume + innovations.size * np.log(2 * np.pi * scale**2)) - cost.sum())
