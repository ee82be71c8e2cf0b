"""What a run does at late times: does it return to a fixed point or keep cycling, and how does it approach a vertex.

A run that starts any distance from a fixed point is watched over its last tenth: how far away it stays, how widely it
cycles. A vertex is approached by a power of time or exponentially; that is read from the last decade.
"""

import numpy as np

from bandit_lab import _checks
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.boundary import Boundary, first_crossing
from bandit_lab.measure.displaced import DisplacedRuns, run_displaced

TAIL = 0.9  # of the steps; what comes later is looked at
RETURNED = 0.01  # of the unit of the projector: a smaller displacement counts as return


def tail_range(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    start: np.ndarray,
    along: np.ndarray,
    steps: int,
) -> np.ndarray:
    """(least, largest) displacement [C, 2] at the starts of blocks in the last tenth of a run, the last one at least.

    Args:
      cells: Hyper of arrays [C]. theta_star, start: [C, D]. along: [D]; the displacement is
        along . (theta - theta_star). steps: of the run.
    """
    fixed = np.asarray(theta_star, np.float64)
    watch = _Range(np.maximum(np.asarray(cells.refresh_interval, int), 1), steps)
    run_displaced(learner, dynamics, DisplacedRuns(cells, fixed, start, np.broadcast_to(along, fixed.shape)), watch)
    return watch.range


class _Range:
    """The range so far of every cell; a `Watch`."""

    def __init__(self, stride: np.ndarray, steps: int) -> None:
        self.stride, self.steps = stride, steps
        self.since = np.minimum(TAIL * steps, (steps - 1) // stride * stride)  # the last start may lie before the tail
        self.range = np.tile([np.inf, -np.inf], (len(stride), 1))

    def __call__(self, who: np.ndarray, first: np.ndarray, readings: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        step = first[:, None] + np.arange(readings.shape[1])
        seen = (step >= self.since[who][:, None]) & (step < self.steps) & (step % self.stride[who][:, None] == 0)
        low = np.min(np.where(seen, readings, np.inf), axis=1)
        high = np.max(np.where(seen, readings, -np.inf), axis=1)
        self.range[who, 0] = np.minimum(self.range[who, 0], low)
        self.range[who, 1] = np.maximum(self.range[who, 1], high)
        return first + readings.shape[1] >= self.steps


def return_boundary(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    start: np.ndarray,
    along: np.ndarray,
    grid: np.ndarray,
    steps: int,
    bisections: int = 5,
) -> Boundary:
    """Smallest learning rate [C] from which a run that starts at `start` [C, D] is not back within `steps`.

    Back: within RETURNED of the fixed point in the whole last tenth. grid: [M] or [C, M] rising learning rates.
    """
    fixed = np.asarray(theta_star, np.float64)

    def away(cells: Hyper, which: np.ndarray) -> np.ndarray:
        ranges = tail_range(learner, dynamics, cells, fixed[which], start[which], along, steps)
        return np.max(np.abs(ranges), axis=1) - RETURNED

    return first_crossing(away, cells, np.arange(len(fixed)), grid, bisections)


_POINTS = 200


def late_exponent(deficit: np.ndarray, decades: float = 1.0) -> np.ndarray:
    """d ln(deficit)/d ln(step) over the last `decades`, by least squares on points equally spaced in ln(step).

    Args:
      deficit: [..., T + 1] distance to the limit at steps 0..T, > 0 in that range.

    Raises:
      ValueError: fewer than a hundred steps, decades that begin before step 1, a deficit that is not positive.
    """
    deficit = np.asarray(deficit, float)
    last = deficit.shape[-1] - 1
    _checks.require(last >= 100, "steps", "at least 100", last)
    _checks.require(0 < decades <= np.log10(last), "decades", f"a number in (0, {np.log10(last):.3g}]", decades)
    steps = np.unique(np.round(np.geomspace(last / 10**decades, last, _POINTS)).astype(int))
    return _fitted_slope(np.log(steps), deficit[..., steps])


def late_rate(deficit: np.ndarray, share: float = 0.5) -> np.ndarray:
    """-d ln(deficit)/d step over the last `share` of the steps, by least squares. deficit: [..., T + 1] > 0 there.

    Raises ValueError for a share outside (0, 1], a deficit <= 0.
    """
    deficit = np.asarray(deficit, float)
    last = deficit.shape[-1] - 1
    _checks.require(0 < share <= 1, "share", "a number in (0, 1]", share)
    steps = np.arange(int(np.ceil(last * (1 - share))), last + 1)
    return -_fitted_slope(steps.astype(float), deficit[..., steps])


def _fitted_slope(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    _checks.require(bool(np.all(values > 0)), "deficit", "numbers > 0", float(np.min(values)))
    centred = x - x.mean()
    return np.log(values) @ centred / (centred @ centred)
