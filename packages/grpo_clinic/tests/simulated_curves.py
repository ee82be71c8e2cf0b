"""Curves with known law, parameters and noise."""

from dataclasses import dataclass

import numpy as np
from grpo_clinic.fitting import engine
from grpo_clinic.fitting.shapes import SHAPES


@dataclass
class Truth:
    time: np.ndarray
    reward: np.ndarray
    mean: np.ndarray
    plateau: np.ndarray
    amplitude: np.ndarray
    theta: np.ndarray


def fitted(law, time, rewards):
    """The fit of one law to each curve [C, T]."""
    return [engine.fit(SHAPES[law], time, one) for one in rewards]


def noise(rng, count, points, rho):
    """AR(1) of unit variance [count, points]."""
    fresh = rng.normal(size=(count, points))
    correlated = fresh.copy()
    for i in range(1, points):
        correlated[:, i] = rho * correlated[:, i - 1] + np.sqrt(1 - rho**2) * fresh[:, i]
    return correlated


def simulate(law, count, points, sigma=0.05, rho=0.0, seed=0):
    """`count` curves whose rise is inside the curve: every regime of damping from 0.3 to 3, every kind of start."""
    rng = np.random.default_rng(seed)
    shape, time = SHAPES[law], np.arange(points, dtype=float)
    rise = points * rng.uniform(0.06, 0.3, count)
    if law == "oscillator":
        theta = np.stack((np.log(rise), rng.uniform(np.log(0.3), np.log(3), count)), axis=-1)
    elif law == "single_exponential":
        theta = np.log(rise)[:, None]
    elif law == "constant":
        theta = np.zeros((count, 0))
    else:
        speed = rng.uniform(8, 30, count) / points
        theta = np.stack((-speed * points * rng.uniform(0.1, 0.25, count), np.log(speed)), axis=-1)
    plateau, amplitude = rng.uniform(0.5, 1, count), rng.uniform(0.3, 0.6, count)
    growth = shape.growth(time, theta[:, None, :]) - 1 if shape.size else np.zeros((count, points))
    mean = plateau[:, None] + amplitude[:, None] * growth
    return Truth(time, mean + sigma * noise(rng, count, points, rho), mean, plateau, amplitude, theta)
