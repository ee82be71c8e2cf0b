"""First detector: does a small displacement from the fixed point grow or decay, and how fast per step."""

from typing import Any

import numpy as np

from bandit_lab.grpo import Hyper, Learner, check_hyper
from bandit_lab.measure.directions import changing_part
from bandit_lab.measure.displaced import DisplacedRuns, run_displaced, samples
from bandit_lab.simulation.cells import as_cells

PERIODS = 150  # length of a growth run in units of N + 1/(1 - mu); a cycle takes about 2 pi of them
START = 1e-7  # displacement, in units of the direction given
TOO_LARGE, TOO_SMALL = 1e-3, 3e-11  # beyond: nonlinear; below: rounding errors
LEAST_CYCLE = 1e-3  # least size of the part of a displacement that cycles, as a share of its whole
LEAST_TURNS, LEAST_SHARE = 2, 0.75  # of what cycles: changes of sign, share of samples with x_j^2 > x_{j-1} x_{j+1}
SAME_RATE = 5.0  # two readings of one growth differ by a bounded factor, not by more than e^5
LONGEST = 2**22  # steps
_BURN_IN = 1 / 3


def generic_direction(basis: np.ndarray) -> np.ndarray:
    """A unit direction [D] inside the policy-changing space that no symmetric mode is orthogonal to."""
    weights = 1.0 / np.sqrt(1.0 + np.arange(basis.shape[0]))
    direction = basis @ (basis.T @ (weights * (-1.0) ** np.arange(basis.shape[0])))
    return direction / np.linalg.norm(direction)


def time_scale(cells: Hyper) -> np.ndarray:
    """N + 1/(1 - mu) [C], steps: the memory of staleness and of momentum."""
    return np.maximum(np.asarray(cells.refresh_interval), 1) + 1 / (1 - np.asarray(cells.momentum))


def growth_rate(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    periods: float = PERIODS,
    bandits: Any = None,
) -> np.ndarray:
    """Growth rate [C] of a displacement of 1e-7, per step: log of the largest multiplier's modulus.

    The nonlinear mean update runs for `periods` (N + 1/(1 - mu)) steps. The rate is the average slope of the log of the
    displacement's size every N steps. A smooth window after a burn-in of one third lets oscillation average out. Where
    the displacement x cycles, its size dips at every turn and the dips can beat with the sampling. Then
    sqrt|x_j^2 - x_{j-1} x_{j+1}| is read instead, which a pair z = r e^{+-iw} makes exactly proportional to r^j. Beside
    an offset of the fixed point it would fall like r^{j/2}, at half the rate. So x must change its sign twice or more,
    and the difference must be positive. Neither holds of a mode beside an offset. A run whose displacement leaves
    [3e-11, 1e-3] is decided there, before rounding errors or saturation matter. Its rate is the crude one up to then.

    Args:
      cells: Hyper of arrays [C]. theta_star: [C, D] fixed points. direction: [D] or [C, D]; only the part of it that
        changes the policy is taken. bandits: one per cell (`displaced.stack_bandits`) instead of the learner's.

    Raises:
      ValueError: a direction that does not change the policy, settings out of range.
    """
    cells = as_cells(cells)
    fixed = np.asarray(theta_star, np.float64)
    directions, space = changing_part(learner, fixed, np.broadcast_to(direction, fixed.shape), bandits)
    return growth_along(learner, dynamics, cells, fixed, directions, periods, bandits, space)


def growth_along(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    fixed: np.ndarray,
    direction: np.ndarray,
    periods: float = PERIODS,
    bandits: Any = None,
    space: np.ndarray | None = None,
) -> np.ndarray:
    """`growth_rate` along directions [C, D] without any neutral part. space: as in `DisplacedRuns`."""
    check_hyper(learner.staleness, cells)
    stride = np.ones(len(fixed), int)
    if learner.staleness.whole_interval:
        stride = np.maximum(np.asarray(cells.refresh_interval, int), 1)
    steps = np.minimum(np.ceil(periods * time_scale(cells)), LONGEST).astype(int)
    watch = _Growth(steps, stride)
    lanes = DisplacedRuns(cells, fixed, fixed + START * direction, direction, bandits, space)
    run_displaced(learner, "finite_group" if dynamics == "sampled" else dynamics, lanes, watch)
    return watch.rates()


def _bump(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A smooth window exp(-1/(u(1-u))) on (0, 1) and its derivative; 0 outside.

    Averages with it of anything that oscillates vanish faster than any power of the number of periods.
    """
    inside = (u > 0) & (u < 1)
    w = np.where(inside, u * (1 - u), 0.25)
    value = np.where(inside, np.exp(-1 / w), 0)
    return value, value * (1 - 2 * u) / w**2


class _Growth:
    """Sums over the samples of every cell [C], and the crude rates of those that left the range; a `Watch`."""

    def __init__(self, steps: np.ndarray, stride: np.ndarray) -> None:
        self.steps, self.stride = steps, stride
        self.size, self.cycle, self.weight, self.contrast, self.turns, self.curved = np.zeros((6, len(steps)))
        self.last, self.before = np.zeros((2, len(steps)))  # the latest two samples of the displacement
        self.crude = np.full(len(steps), np.nan)

    def __call__(self, who: np.ndarray, first: np.ndarray, readings: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        end = self.steps[who]
        left = self._leave(who, first, sizes)
        lane, column, step = samples(first, np.zeros_like(first), self.stride[who], end, ~left)
        if len(lane):
            self._add(who, lane, step, readings[lane, column], sizes[lane, column])
        return left | (first + readings.shape[1] >= end)

    def _leave(self, who: np.ndarray, first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Which lanes leave the range here [n]; notes their rate up to then."""
        outside = ~((sizes < TOO_LARGE**2) & (sizes > TOO_SMALL**2))
        outside &= first[:, None] + np.arange(sizes.shape[1]) < self.steps[who][:, None]
        left: np.ndarray = np.any(outside, axis=1)
        at = np.argmax(outside, axis=1)
        growth = _log_size(sizes[left, at[left]])
        growth = np.where(np.isnan(growth), np.inf, growth)
        self.crude[who[left]] = growth / np.maximum(first[left] + at[left], 1)
        return left

    def _add(self, who: np.ndarray, lane: np.ndarray, step: np.ndarray, now: np.ndarray, size: np.ndarray) -> None:
        """Add samples, given lane by lane in the order of time."""
        cell, count = who[lane], len(who)
        opens = np.append(True, lane[1:] != lane[:-1])
        last = np.where(opens, self.last[cell], np.roll(now, 1))
        before = np.where(opens, self.before[cell], np.roll(last, 1))
        closes = np.append(opens[1:], True)
        self.last[cell[closes]], self.before[cell[closes]] = now[closes], last[closes]
        bump, slope = _bump((step / self.steps[cell] - _BURN_IN) / (1 - _BURN_IN))
        inside = bump > 0
        lane, bump, slope, log_size = lane[inside], bump[inside], slope[inside], _log_size(size[inside])
        curvature = (last**2 - before * now)[inside]
        log_cycle = _log_size(np.abs(curvature))

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(lane, values, count)

        self.size[who] -= total(slope * log_size)
        with np.errstate(invalid="ignore"):  # what does not cycle at all has the logarithm -inf, and is not used
            self.cycle[who] -= total(slope * log_cycle)
            self.contrast[who] += total(bump * (log_cycle - log_size))
        self.weight[who] += total(bump)
        self.turns[who] += total((last * now < 0)[inside])
        self.curved[who] += total(bump * (curvature > 0))

    def rates(self) -> np.ndarray:
        """Growth per step [C]."""
        window = self.steps * (1 - _BURN_IN)
        with np.errstate(divide="ignore", invalid="ignore"):
            size, cycle = (total / (self.weight * window) for total in (self.size, self.cycle))
            cycles = (self.contrast / self.weight > np.log(LEAST_CYCLE)) & (np.abs(size - cycle) * window < SAME_RATE)
            cycles &= (self.turns >= LEAST_TURNS) & (self.curved > LEAST_SHARE * self.weight)
        return np.where(np.isnan(self.crude), np.where(cycles, cycle, size), self.crude)


def _log_size(square: np.ndarray) -> np.ndarray:
    """Log of a displacement, over the first one, from its square."""
    with np.errstate(divide="ignore"):
        return 0.5 * np.log(square) - np.log(START)
