"""How good a fit is, and against what: the noise that no law could explain."""

import numpy as np

from grpo_clinic.fitting.intervals import at_bounds
from grpo_clinic.fitting.likelihood import RHO
from grpo_clinic.fitting.surface import LikelihoodSurface
from grpo_clinic.readers.record import Floats

_RHO_STEP = float(RHO[1] - RHO[0])
LITTLE = 0.5
"""Share of the explainable variance below which no law is said to describe a curve."""


def aicc(surface: LikelihoodSurface) -> Floats:
    """Akaike's criterion with the small-sample term [C]; counted are theta, plateau, amplitude, sigma and rho."""
    k = surface.shape.size + (2 if surface.shape.size else 1) + 2
    n = surface.time.size
    correction = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
    return -2 * surface.log_likelihood + 2 * k + correction


def r_squared(rewards: Floats, fitted: Floats) -> Floats:
    """1 - residual over total sum of squares [C]; 0 for a curve without any variance."""
    total = np.sum((rewards - rewards.mean(axis=-1, keepdims=True)) ** 2, axis=-1)
    residual = np.sum((rewards - fitted) ** 2, axis=-1)
    return np.where(total > 0, 1 - residual / np.where(total > 0, total, 1), 0.0)


def noise_variance(rewards: Floats) -> Floats:
    """Variance [C] of what changes from one logged point to the next: mean of (y_{i-1} - 2 y_i + y_{i+1})^2 / 6.

    Smooth trends drop out (Gasser, Sroka and Jennen-Steinmetz 1986). Autocorrelated noise is underestimated by it, so
    that the explainable part comes out too large rather than too small.
    """
    second = rewards[:, :-2] - 2 * rewards[:, 1:-1] + rewards[:, 2:]
    return np.mean(second**2, axis=-1) / 6


def r_squared_explainable(rewards: Floats, fitted: Floats, noise: Floats) -> Floats:
    """Share [C] of the variance beyond the point-to-point noise that the law explains, (TSS - RSS)/(TSS - n s^2).

    NaN where noise is all there is (the denominator below 5 % of the total); at most 1.
    """
    count = rewards.shape[-1]
    total = np.sum((rewards - rewards.mean(axis=-1, keepdims=True)) ** 2, axis=-1)
    explained = total - np.sum((rewards - fitted) ** 2, axis=-1)
    explainable = total - (count - 1) * noise
    enough = explainable > 0.05 * np.maximum(total, 1e-300)
    return np.where(enough, np.minimum(explained / np.where(enough, explainable, 1), 1.0), np.nan)


def noise_errors(surface: LikelihoodSurface) -> dict[str, tuple[Floats, Floats]]:
    """Noise parameter -> (value, asymptotic standard error), each [C].

    AR(1) over n points: Var(rho) = (1 - rho^2)/n, and Var(sigma) = sigma^2 (1 + rho^2)/(1 - rho^2)/(2 n) for the
    standard deviation sigma of the noise itself. rho is one of those that are tried: the variance of a rounding is
    added, to sigma as well, which is that of the innovations over sqrt(1 - rho^2).
    """
    rho, sigma, n = surface.rho, surface.sigma, surface.time.size
    wider, rounded = (1 + rho * rho) / (1 - rho * rho), _RHO_STEP / np.sqrt(12)
    return {
        "sigma": (sigma, sigma * np.hypot(np.sqrt(wider / (2 * n)), rounded * rho / (1 - rho * rho))),
        "rho": (rho, np.hypot(np.sqrt((1 - rho * rho) / n), rounded)),
    }


def open_ended(surface: LikelihoodSurface) -> np.ndarray:
    """Whether shapes slower than the curve can tell are accepted [C]: the plateau then has no bound on its far side."""
    if not surface.shape.size:
        return np.zeros(surface.plateau.size, bool)
    low, high = at_bounds(surface)
    slow = high[:, 0] if "delay" in surface.shape.parameters else low[:, surface.shape.parameters.index("speed")]
    return np.asarray(slow)


def time_to_gain(surface: LikelihoodSurface, share: float = 0.95) -> tuple[Floats, Floats]:
    """Steps from the first point to `share` of the gain still ahead there, for the best [C] and all shapes [C, M].

    The last crossing, so that an overshoot does not count as arrival before it has decayed to within 1 - share.
    """
    slowest = 12.0 * max(float(surface.time[-1]), 1e-9)
    axis = np.concatenate(([0.0], np.geomspace(1e-3, 1, 160) * slowest))
    both = []
    for theta in (surface.theta[:, None, :], surface.shapes):
        done = surface.shape.growth(axis, theta[..., None, :])
        away = np.abs(1 - done) / np.maximum(1 - done[..., :1], 1e-12)
        outside = away > 1 - share
        last = np.where(outside.any(axis=-1), axis.size - 1 - outside[..., ::-1].argmax(axis=-1), 0)
        after = np.minimum(last + 1, axis.size - 1)
        here, there = (np.take_along_axis(away, at[..., None], axis=-1)[..., 0] for at in (last, after))
        part = np.clip((here - (1 - share)) / np.where(here > there, here - there, 1), 0, 1)
        both.append(axis[last] + part * (axis[after] - axis[last]))
    return both[0][:, 0], both[1]
