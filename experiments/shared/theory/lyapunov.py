"""Typical (Lyapunov) stability under drawn geometric ages, estimated by a product of drawn steps.

Stability in mean square implies that almost every run decays; between the mean-square and the Lyapunov threshold runs
decay typically while their mean square grows.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bandit_lab import _checks
from bandit_lab.theory.conventions import Convention, gain
from bandit_lab.theory.random_ages import geometric_weights, mean_square_threshold


class Exponent(NamedTuple):
    """Lyapunov exponent per step and its standard error over independent chains."""

    value: float
    standard_error: float


def lyapunov_exponent(
    kappa: float,
    weights: np.ndarray,
    momentum: float,
    convention: Convention = "heavy_ball",
    steps: int = 4000,
    chains: int = 256,
    seed: int = 0,
) -> Exponent:
    """Growth rate of log|x| with ages drawn from `weights` [M + 1]: mean over chains and its standard error.

    Monte Carlo of the linear recursion alone (no bandit); the first tenth of the steps is discarded. The same seed
    draws the same ages for every kappa. Chains that hit zero exactly (possible at kappa = 1 only) are left out.
    """
    rng, mu = np.random.default_rng(seed), momentum
    weights = np.asarray(weights, float)
    memory, rows = len(weights), np.arange(chains)
    force = kappa * gain(mu, convention)
    history = rng.normal(size=(chains, memory))
    velocity, total, start = np.zeros(chains), np.zeros(chains), steps // 10
    alive = np.ones(chains, bool)
    levels = np.cumsum(weights)
    for t in range(steps):
        now = t % memory
        age = np.minimum(np.searchsorted(levels, rng.random(chains)), memory - 1)
        push = -force * history[rows, (now - age) % memory]
        velocity = mu * velocity + push
        step = push + mu * velocity if convention == "nesterov" else velocity
        history[:, (now + 1) % memory] = history[:, now] + step
        if t % 16 == 15:
            scale = np.sqrt((history**2).mean(1) + velocity**2)
            alive &= scale > 0
            scale = np.where(alive, scale, 1.0)
            history /= scale[:, None]
            velocity = velocity / scale
            total += np.log(scale) if t >= start else 0.0
    counted = sum(16 for t in range(15, steps, 16) if t >= start)
    total = total[alive] / counted
    return Exponent(float(total.mean()), float(total.std(ddof=1) / np.sqrt(len(total))))


def lyapunov_threshold(
    mean_age: float,
    momentum: float,
    maximum: int,
    convention: Convention = "heavy_ball",
    tail: str = "redraw",
    steps: int = 4000,
    chains: int = 256,
    seed: int = 0,
) -> tuple[float, float]:
    """(kappa, standard error) at which the Lyapunov exponent changes sign; ages truncated at `maximum`.

    Bisection with common random numbers between the mean-square threshold and 40 times it; the error is the exponent's
    over its slope in log kappa. Raises ValueError if no sign change lies there.
    """
    weights = geometric_weights(mean_age, maximum, tail)

    def exponent(log_kappa: float) -> float:
        return lyapunov_exponent(float(np.exp(log_kappa)), weights, momentum, convention, steps, chains, seed).value

    low = float(np.log(0.8 * mean_square_threshold(mean_age, momentum, convention)))
    high = low + float(np.log(40.0))
    _checks.require(exponent(low) < 0 < exponent(high), "refresh_interval", "a sign change of the exponent", mean_age)
    root = brentq(exponent, low, high, xtol=1e-4)
    kappa = float(np.exp(root))
    slope = (exponent(root + 0.05) - exponent(root - 0.05)) / 0.1
    error = lyapunov_exponent(kappa, weights, momentum, convention, steps, chains, seed).standard_error
    return kappa, float(kappa * error / abs(slope))
