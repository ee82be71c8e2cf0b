"""The descent finds what the library's least squares finds, started several times."""

from functools import cache

import numpy as np
import pytest
from grpo_clinic.fitting import SHAPES, descent, engine, likelihood
from scipy.optimize import least_squares
from settings import nightly_but
from simulated_curves import simulate

MOVING = [law for law in SHAPES if law != "constant"]
TOLERANCE = 1e-6
"""Share of the sum of squares by which ours may lie above the library's best."""


@pytest.fixture(autouse=True)
def plain_least_squares(monkeypatch):
    """No weights, white noise: then the sum of squares is all there is."""
    monkeypatch.setattr(likelihood, "robust_weights", np.ones_like)
    monkeypatch.setattr(engine, "RHO", np.zeros(1))


def curves():
    """60 curves of 60 points, twelve of each law, noise 0.1: the wrong law and the constant have minima on bounds."""
    truths = [simulate(law, 12, 60, sigma=0.1, seed=31) for law in SHAPES]
    return truths[0].time, np.concatenate([truth.reward for truth in truths])


def residual(shape, time, reward, theta):
    """Reward less the law's curve at theta, plateau and amplitude by linear least squares."""
    columns = np.stack((np.ones_like(time), shape.growth(time, theta) - 1), axis=-1)
    return columns @ np.linalg.lstsq(columns, reward, rcond=None)[0] - reward


def starts(shape, time, reward, count):
    """The best shapes of the grid that lie at least three of its steps apart."""
    grid, axes = shape.grid(time), shape.axes(time)
    curve = shape.growth(time, grid[:, None, :]) - 1
    white = likelihood.Whitening(time, reward[None], curve, np.zeros(1))
    squares = likelihood.solve(white, np.ones((1, time.size))).squares[0, 0]
    kept = []
    for place in np.argsort(squares):
        apart = [max(abs(a - b) / (axis[1] - axis[0]) for a, b, axis in zip(grid[place], one, axes, strict=True))
                 for one in kept]  # fmt: skip
        if len(kept) < count and min(apart, default=9) > 2.9:
            kept.append(grid[place])
    return kept


def library(shape, time, reward):
    """Smallest sum of squares of scipy's least_squares from four starts, within our bounds."""
    low, high = shape.bounds(time)
    found = [
        least_squares(
            lambda theta: residual(shape, time, reward, theta),
            np.clip(start, low + 1e-7, high - 1e-7),
            bounds=(low, high), ftol=1e-13, xtol=1e-11, gtol=1e-13, max_nfev=200,
        )
        for start in starts(shape, time, reward, 4)
    ]  # fmt: skip
    return min(2 * one.cost for one in found)


@cache
def library_bests(law):
    """Of every curve."""
    time, rewards = curves()
    return np.array([library(SHAPES[law], time, reward) for reward in rewards])


def excess(law):
    """Our sum of squares over the library's best, less one, for every curve."""
    time, rewards = curves()
    fitted = engine.fit(SHAPES[law], time, rewards).fitted
    return np.sum((fitted - rewards) ** 2, axis=1) / library_bests(law) - 1


@pytest.mark.parametrize("law", nightly_but(["sigmoid"], MOVING))
def test_no_sum_of_squares_is_above_the_librarys_best(law):
    assert excess(law).max() <= TOLERANCE


def test_a_descent_that_stops_early_would_be_caught(monkeypatch):
    """The planted defect: five steps. The grid and the neighbourhood hide most of it, but not all."""
    monkeypatch.setattr(descent, "_ITERATIONS", 5)
    assert np.sum(excess("sigmoid") > TOLERANCE) >= 3
