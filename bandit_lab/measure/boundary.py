"""Where stability is lost: bracketing on the learning rate, or every refresh interval in turn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from bandit_lab import _checks
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.directions import changing_part
from bandit_lab.measure.growth import PERIODS, growth_along
from bandit_lab.simulation.cells import as_cells

_BISECTIONS = 13
_NEAR = 1 / 32  # of a bracket: how far from the secant's root it is looked at next, on both sides

Test = Callable[[Hyper, np.ndarray], np.ndarray]
"""(cells [C], theta_star [C, D]) -> [C], positive beyond the boundary."""


@dataclass(frozen=True)
class Boundary:
    """A boundary on the learning rate for every cell.

    value: [C] smallest learning rate at which the test turns true, geometric middle of the last bracket; NaN where the
    grid does not bracket it. low, high: [C] last bracket. grid: [M] or [C, M] learning rates of the first scan.
    on_grid: [C, M] the tested quantity there (growth rate per step, or the onset test).
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    grid: np.ndarray
    on_grid: np.ndarray


def first_crossing(
    test: Test,
    cells: Hyper,
    theta_star: np.ndarray,
    grid: np.ndarray,
    bisections: int = _BISECTIONS,
    rough: Test | None = None,
) -> Boundary:
    """Smallest learning rate at which `test(cells, theta_star) -> [C]` becomes positive: a scan, then a refinement.

    theta_star: [C, ...] or anything else with one row per cell; `test` gets the rows of the cells that it is asked.

    rough: a cheaper test whose sign is good but near the boundary: it scans, and `test` looks at both sides of every
    change of sign until the sides of all changes have been looked at. The bracket shrinks to 2^-bisections of the
    grid's step in the logarithm, all cells together: by bisection, or, with `rough`, whose values must be smooth then,
    by two learning rates close to the secant's root. grid: [M], or [C, M] of its own for each cell. Raises ValueError
    unless the grid rises and has two points.
    """
    cells, grid = as_cells(cells), np.asarray(grid, float)
    shaped = grid.ndim == 1 or (grid.ndim == 2 and len(grid) == len(theta_star))
    rises = shaped and grid.shape[-1] >= 2 and bool(np.all(np.diff(grid) > 0) and np.all(grid > 0))
    _checks.require(rises, "learning_rate", "at least two rising learning rates > 0", grid.tolist())

    def at(which: Test, cell: np.ndarray, rate: np.ndarray) -> np.ndarray:
        part = Hyper(*(np.asarray(column)[cell] for column in cells))
        return which(part._replace(learning_rate=rate), theta_star[cell])

    count, points = len(theta_star), grid.shape[-1]
    every, rates = np.repeat(np.arange(count), points), np.broadcast_to(grid, (count, points))
    on_grid = at(rough or test, every, rates.ravel()).reshape(count, points)
    if rough:
        _look_closer(lambda cell, point: at(test, cell, rates[cell, point]), on_grid)
    beyond = _beyond(on_grid)
    first = np.argmax(beyond, axis=1)
    found = beyond.any(axis=1) & (first > 0)
    row = np.arange(count)
    low, high = np.log(rates[row, np.maximum(first - 1, 0)]), np.log(rates[row, first])
    some = np.flatnonzero(found)
    sides = np.stack([on_grid[some, first[some] - 1], on_grid[some, first[some]]], axis=1)
    bracket = np.stack([low[some], high[some]], axis=1)
    _shrink(lambda cell, log_rate: at(test, some[cell], np.exp(log_rate)), bracket, sides, bisections, bool(rough))
    low[some], high[some] = bracket.T
    value = np.where(found, np.exp(0.5 * (low + high)), np.nan)
    return Boundary(value, np.exp(low), np.exp(high), grid, on_grid)


def _beyond(values: np.ndarray) -> np.ndarray:
    return ~(values <= 0)  # a NaN counts as beyond


def _look_closer(test: Callable[[np.ndarray, np.ndarray], np.ndarray], on_grid: np.ndarray) -> None:
    """Replace values [C, M] on both sides of every change of sign by those of `test(cell, point)`, till none is new."""
    looked = np.zeros(on_grid.shape, bool)
    while True:
        changes = np.diff(_beyond(on_grid).astype(int), axis=1) != 0
        edge = np.zeros(on_grid.shape, bool)
        edge[:, 1:] |= changes
        edge[:, :-1] |= changes
        cell, point = np.nonzero(edge & ~looked)
        if not len(cell):
            return
        on_grid[cell, point] = test(cell, point)
        looked[cell, point] = True


def _shrink(
    test: Callable[[np.ndarray, np.ndarray], np.ndarray],
    bracket: np.ndarray,
    sides: np.ndarray,
    bisections: int,
    smooth: bool,
) -> None:
    """Shrink brackets [C, 2] of `test(cell, point)`, whose values at their ends are `sides` [C, 2], in place."""
    target = (bracket[:, 1] - bracket[:, 0]) * 2.0**-bisections * (1 + 1e-9)
    slow = np.full(len(bracket), not smooth)
    while len(cell := np.flatnonzero(bracket[:, 1] - bracket[:, 0] > target)):
        low, high = bracket[cell].T
        shares = _shares(sides[cell], slow[cell]) if smooth else np.full((len(cell), 1), 0.5)
        tried = low[:, None] + shares * (high - low)[:, None]
        values = test(np.repeat(cell, tried.shape[1]), tried.ravel()).reshape(tried.shape)
        points, values = (
            np.concatenate([ends[:, :1], inner, ends[:, 1:]], axis=1)
            for ends, inner in ((bracket[cell], tried), (sides[cell], values))
        )
        above = np.argmax(_beyond(values[:, 1:]), axis=1) + 1
        row = np.arange(len(cell))
        bracket[cell] = np.stack([points[row, above - 1], points[row, above]], axis=1)
        sides[cell] = np.stack([values[row, above - 1], values[row, above]], axis=1)
        slow[cell] = bracket[cell, 1] - bracket[cell, 0] > 0.5 * (high - low)


def _shares(sides: np.ndarray, slow: np.ndarray) -> np.ndarray:
    """Where in a bracket to look next [C, 2]: close to the secant's root, or at thirds where that did not help."""
    with np.errstate(invalid="ignore"):
        root = sides[:, 0] / (sides[:, 0] - sides[:, 1])
    root = np.clip(np.where(np.isfinite(root), root, 0.5), 2 * _NEAR, 1 - 2 * _NEAR)
    near = np.stack([root - _NEAR, root + _NEAR], axis=1)
    return np.where(slow[:, None], [1 / 3, 2 / 3], near)


def learning_rate_boundary(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    grid: np.ndarray,
    periods: int = PERIODS,
    bandits: Any = None,
) -> Boundary:
    """Smallest learning rate [C] at which a displacement from the fixed point grows (the cells' own is ignored).

    A window of instability narrower than a step of the grid is passed over: with fresh and stale stiffness mixed there
    are such windows. The grid is scanned with runs of a fourth of the length; those decide where growth is clear.

    Modes of nearly equal stiffness hardly part within a run, and the milder ones pull the growth of a generic direction
    towards theirs: with 16 arms whose stiffnesses lie 1.4 % apart (momentum 0.9, N = 4) the boundary is off by 0.4 %
    with 150 periods and by 0.015 % with 600; along the stiffest mode alone (`stiffest_mode`) by 4e-7. Soft modes do the
    same, as their multipliers are nearly 1: a network of 258 parameters (stiffnesses 14 to 4e-4, model A, N = 4) is off
    by 0.24 %, 0.03 % and 3e-9.

    Args:
      cells: Hyper of arrays [C]. theta_star: [C, D]. direction: [D] or [C, D], as in `growth_rate`. grid: [M] or [C, M]
        rising learning rates; the first one at which the displacement grows is refined to 2^-13 of the step. bandits:
        one per cell (`displaced.stack_bandits`) instead of the learner's.
    """
    fixed = np.asarray(theta_star, float)
    directions, space = changing_part(learner, fixed, np.broadcast_to(direction, fixed.shape), bandits)

    def grows(length: float, cells: Hyper, which: np.ndarray) -> np.ndarray:
        mine = jax.tree.map(lambda x: x[which], bandits)
        some = None if space is None else space[which]
        return growth_along(learner, dynamics, cells, fixed[which], directions[which], length, mine, some)

    test, rough = partial(grows, periods), partial(grows, periods / 4)
    return first_crossing(test, cells, np.arange(len(fixed)), grid, rough=rough)
