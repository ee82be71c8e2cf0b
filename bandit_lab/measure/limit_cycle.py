"""Where a run stays that starts any distance from a fixed point: does it return, or keep cycling, and how widely."""

import numpy as np

from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.boundary import Boundary, first_crossing
from bandit_lab.measure.displaced import Lanes, run_lanes

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
    run_lanes(learner, dynamics, Lanes(cells, fixed, start, np.broadcast_to(along, fixed.shape)), watch)
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
        found = tail_range(learner, dynamics, cells, fixed[which], start[which], along, steps)
        return np.max(np.abs(found), axis=1) - RETURNED

    return first_crossing(away, cells, np.arange(len(fixed)), grid, bisections)
