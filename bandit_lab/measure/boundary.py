"""Where stability is lost: bracketing on the learning rate, or every refresh interval in turn."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bandit_lab import _checks
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.growth import PERIODS, growth_rate

_BISECTIONS = 13

Test = Callable[[Hyper, np.ndarray], np.ndarray]
"""(cells [C], theta_star [C, D]) -> [C], positive beyond the boundary."""


@dataclass(frozen=True)
class Boundary:
    """A boundary on the learning rate for every cell.

    value: [C] smallest learning rate at which the test turns true, geometric middle of the last bracket; NaN where the
    grid does not bracket it. low, high: [C] last bracket. grid: [M] learning rates of the first scan. on_grid: [C, M]
    the tested quantity there (growth rate per step, or the onset test).
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    grid: np.ndarray
    on_grid: np.ndarray

    @property
    def bracketed(self) -> np.ndarray:
        """Whether the grid brackets the boundary [C]."""
        return np.isfinite(self.value)


def first_crossing(
    test: Test, cells: Hyper, theta_star: np.ndarray, grid: np.ndarray, bisections: int = _BISECTIONS
) -> Boundary:
    """Smallest learning rate at which `test(cells, theta_star) -> [C]` becomes positive: a scan, then bisection.

    All cells are bisected together, on the logarithm. Raises ValueError unless the grid rises and has two points.
    """
    grid = np.asarray(grid, float)
    rises = grid.ndim == 1 and len(grid) >= 2 and bool(np.all(np.diff(grid) > 0) and grid[0] > 0)
    _checks.require(rises, "learning_rate", "at least two rising learning rates > 0", grid.tolist())
    count, points = len(theta_star), len(grid)
    spread = Hyper(*(np.repeat(np.asarray(column), points) for column in cells))
    spread = spread._replace(learning_rate=np.tile(grid, count))
    on_grid = test(spread, np.repeat(theta_star, points, axis=0)).reshape(count, points)
    beyond = ~(on_grid <= 0)  # a NaN counts as beyond
    first = np.argmax(beyond, axis=1)
    found = beyond.any(axis=1) & (first > 0)
    low, high = np.log(grid[np.maximum(first - 1, 0)]), np.log(grid[first])
    some = np.flatnonzero(found)
    part = Hyper(*(np.asarray(column)[some] for column in cells))
    for _ in range(bisections if len(some) else 0):
        middle = 0.5 * (low[some] + high[some])
        above = ~(test(part._replace(learning_rate=np.exp(middle)), theta_star[some]) <= 0)
        high[some], low[some] = np.where(above, middle, high[some]), np.where(above, low[some], middle)
    value = np.where(found, np.exp(0.5 * (low + high)), np.nan)
    return Boundary(value, np.exp(low), np.exp(high), grid, on_grid)


def learning_rate_boundary(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    grid: np.ndarray,
    periods: int = PERIODS,
) -> Boundary:
    """Smallest learning rate [C] at which a displacement from the fixed point grows (the cells' own is ignored).

    A window of instability narrower than a step of the grid is passed over: with fresh and stale stiffness mixed there
    are such windows.

    Args:
      cells: Hyper of arrays [C]. theta_star: [C, D]. direction: [D] of the displacement. grid: [M] rising learning
        rates; the first one at which the displacement grows is refined by bisection to a relative 2^-13 of the step.
    """

    def test(cells: Hyper, theta_star: np.ndarray) -> np.ndarray:
        return growth_rate(learner, dynamics, cells, theta_star, direction, periods)

    return first_crossing(test, cells, np.asarray(theta_star, float), grid)


def refresh_interval_boundary(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    intervals: np.ndarray,
    periods: int = PERIODS,
) -> tuple[np.ndarray, np.ndarray]:
    """First refresh interval of `intervals` [M] at which a displacement grows [C], 0 if none, and the rates [C, M].

    Every interval is tried: stability in N need not be monotone (fresh and stale stiffness mixed).
    """
    intervals = np.asarray(intervals, int)
    theta_star = np.asarray(theta_star, float)
    spread = Hyper(*(np.repeat(np.asarray(column), len(intervals)) for column in cells))
    spread = spread._replace(refresh_interval=np.tile(intervals, len(theta_star)))
    each = np.repeat(theta_star, len(intervals), axis=0)
    rates = growth_rate(learner, dynamics, spread, each, direction, periods).reshape(len(theta_star), -1)
    beyond = ~(rates <= 0)
    return np.where(beyond.any(axis=1), intervals[np.argmax(beyond, axis=1)], 0), rates
