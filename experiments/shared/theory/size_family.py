"""A family of bandits whose stiffness scales as M^-alpha: the size exponent with nothing else changing.

Derived here. Two arms with rewards (g, 0), mean-only advantage, uniform reference, reverse KL of weight beta: the fixed
point sigma(g/beta) depends on g/beta only, the stiffness 2 beta p(1-p) is proportional to beta. Scaling both g and beta
by M^-alpha leaves the fixed point where it is and the time constant (1 - mu)/(eta K) grows as M^alpha. In the
overdamped limit the reward relative to its plateau, (R - R_0)/(R_inf - R_0), is one curve of t/tau(M).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import curve_fit

from bandit_lab import _checks
from bandit_lab.theory.conventions import gain


class Member(NamedTuple):
    """One member: `rewards` (g, 0), `kl_weight`, its `stiffness` [reward/logit^2] and `probability` of the good arm."""

    rewards: tuple[float, float]
    kl_weight: float
    stiffness: float
    probability: float


def member(size: float, exponent: float, reward: float = 1.0, kl_weight: float = 1.0) -> Member:
    """The member of relative size M >= 1 with stiffness proportional to M^-exponent, mean-only advantage.

    Raises ValueError for a size below 1, a KL weight <= 0.
    """
    _checks.require(size >= 1, "size", "a number >= 1 (rewards stay in [0, 1])", size)
    _checks.positive("kl_weight", float(kl_weight))
    scale = float(size) ** -exponent
    p = 1 / (1 + np.exp(-reward / kl_weight))
    return Member((reward * scale, 0.0), kl_weight * scale, float(2 * kl_weight * scale * p * (1 - p)), float(p))


def time_constant(
    stiffness: float, learning_rate: float, momentum: float = 0.0, convention: str = "heavy_ball"
) -> float:
    """Steps of the single exponential, (1 - mu)/(eta K): the inverse stiffness, overdamped limit."""
    return (1 - momentum) / (learning_rate * gain(momentum, convention) * stiffness)


def fitted_exponent(sizes: np.ndarray, times: np.ndarray) -> tuple[float, float]:
    """Slope of log time against log size and its standard error (ordinary least squares).

    Raises ValueError below 3 sizes.
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(times, float))
    _checks.require(len(x) >= 3, "sizes", "at least 3 sizes", len(x))
    design = np.column_stack([x, np.ones_like(x)])
    solution, *_ = np.linalg.lstsq(design, y, rcond=None)
    residual = y - design @ solution
    variance = residual @ residual / (len(x) - 2)
    return float(solution[0]), float(np.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0]))


def nearest_exponential(time: np.ndarray, curve: np.ndarray) -> tuple[float, float, float]:
    """(plateau, time scale, mean squared misfit) of plateau - gain exp(-t/tau) nearest to a noise-free curve [T].

    Least squares; tau starts at 1, so that `time` [T] counts in units of about the time scale.
    """

    def law(t: np.ndarray, top: float, tau: float, gain: float) -> np.ndarray:
        return top - gain * np.exp(-t / tau)

    best, _ = curve_fit(law, time, curve, p0=(curve[-1], 1.0, 1.0))
    return float(best[0]), float(best[1]), float(np.mean((law(time, *best) - curve) ** 2))


def beyond_exponential(damping_ratio: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """How much of the gap is left from rest beyond exp(-s), to first order in 1/(4 zeta^2). Derived in this module.

    damping_ratio: zeta [...]. gone: s [T], time in units of damping/stiffness. Returns [..., T].
    """
    excess = 0.25 / np.asarray(damping_ratio)[..., None] ** 2
    return excess * ((1 - gone) * np.exp(-gone) - np.exp(-gone / excess))
