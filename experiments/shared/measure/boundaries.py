"""Boundaries that figures alone look for: along the refresh interval, and where a run is seen to cross zero."""

import numpy as np

from bandit_lab._numerics import ordered
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.block import make_block, stack
from bandit_lab.measure.boundary import Boundary, first_crossing
from bandit_lab.measure.frozen_moment import FAR
from bandit_lab.measure.growth import PERIODS, growth_rate
from bandit_lab.measure.onset import displacement
from bandit_lab.measure.period_jacobian import floquet

RESOLUTION = 1e-6  # least overshoot, as a share of the first displacement, that `first_overshoot` reports


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


def floquet_intervals(
    learner: Learner, dynamics: str, hyper: Hyper, intervals: np.ndarray, *, count: int = FAR, seed: int = 0
) -> tuple[np.ndarray, str | None]:
    """Dominant multiplier [M] per period at each refresh interval of `intervals` [M]; (NaN, reason) if there are none.

    The refresh interval of `hyper` is ignored. Every interval is tried: stability in N need not be monotone.
    """
    intervals = np.asarray(intervals, int)
    if not learner.staleness.block_synchronous:
        results = [
            floquet(learner, dynamics, hyper._replace(refresh_interval=int(n)), count=count, seed=seed)
            for n in intervals
        ]
        tops = [r.multipliers[0] if len(r.multipliers) else np.nan for r in results]
        return np.array(tops, complex), next((r.reason for r in results if r.reason), None)
    block, reason = make_block(
        learner, dynamics, hyper._replace(refresh_interval=int(intervals[0])), count=count, seed=seed
    )
    if block is None:
        return np.full(len(intervals), np.nan, complex), reason
    _, jacobians = block.jacobians(stack(block.hyper, refresh_interval=intervals))
    return ordered(jacobians)[:, 0], None


def first_overshoot(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    projector: np.ndarray,
    grid: np.ndarray,
) -> Boundary:
    """Smallest learning rate [C] at which the displacement is seen to cross zero by more than RESOLUTION.

    Lies above the onset: just beyond it the first crossing is too late, and too small, to be seen.
    """

    def test(cells: Hyper, theta_star: np.ndarray) -> np.ndarray:
        series = displacement(learner, dynamics, cells, theta_star, direction, projector)
        return np.array([-np.min(row) - RESOLUTION if np.all(np.isfinite(row)) else np.nan for row in series])

    return first_crossing(test, cells, np.asarray(theta_star, float), grid)
