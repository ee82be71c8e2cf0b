"""Second detector: when does the approach to the fixed point begin to oscillate, read from the displacement itself.

Overshoot is exponentially small just beyond the onset, so the poles are identified instead: a linear recurrence is
fitted to the displacement (Prony's method) and its dominant root is looked at. The onset is where that root stops being
real and positive.
"""

import numpy as np

from bandit_lab.grpo import Hyper, Learner, check_hyper
from bandit_lab.measure.boundary import Boundary, first_crossing
from bandit_lab.measure.displaced import DisplacedRuns, run_displaced, samples
from bandit_lab.simulation.cells import as_cells

ORDER = 3  # most poles of one mode at the sample points that have not died out: position, velocity, one snapshot
SERIES_START = 2e-5  # displacement of time-series runs; even orders cancel between the two signs
_NOISE = 1e-15 / SERIES_START  # rounding error of a displacement, relative to the first
_RANK = 1e-7  # smallest singular value, relative to the largest, that counts as a further pole


def fit_poles(series: np.ndarray, order: int) -> np.ndarray:
    """Poles of one displacement series [n], largest modulus first: at most `order`, fewer if the data show fewer.

    Least squares on x_{j+r} = sum_i a_i x_{j+i}, r being the number of poles that the data show: the numerical rank of
    the matrix of windows of length `order`. Rounding errors are equal in all rows, so rows are not rescaled.
    """
    alive = np.abs(series) > 10 * _NOISE * np.max(np.abs(series))
    series = series[: max(int(np.argmin(alive)) if not alive.all() else len(series), 2)]
    order = min(order, len(series) // 2)
    windows = np.lib.stride_tricks.sliding_window_view(series, order)
    singular = np.linalg.svd(windows, compute_uv=False)
    rank = max(int(np.sum(singular > _RANK * singular[0])), 1)
    rows = np.lib.stride_tricks.sliding_window_view(series, rank + 1)
    coefficients = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0]
    companion = np.diag(np.ones(rank - 1), -1)
    companion[0] = coefficients[::-1]
    roots = np.linalg.eigvals(companion)
    return roots[np.argsort(-np.abs(roots), kind="stable")]


def unsampled_reason(learner: Learner, intervals: np.ndarray) -> str | None:
    """The reason if the rule is aperiodic at some interval (no multipliers exist), else None."""
    try:
        _periods(learner, intervals)
    except ValueError as error:
        return str(error)
    return None


def _periods(learner: Learner, intervals: np.ndarray) -> np.ndarray:
    """Steps [C] after which the staleness model repeats itself. Raises ValueError where it does not."""
    unique, place = np.unique(np.asarray(intervals), return_inverse=True)
    return np.array([int(learner.staleness.period(interval.item())) for interval in unique])[place]


def _span(learner: Learner, cells: Hyper) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first step used, stride, number of samples) [C] each.

    A period apart, so that one linear map leads from each sample to the next. Where a history is looked back on, by N
    steps, only after all but a few of its poles have died; enough samples are taken to see a pole that momentum makes
    slow.
    """
    interval, memory = np.asarray(cells.refresh_interval), 2 / (1 - np.asarray(cells.momentum))
    period = _periods(learner, interval)
    history = np.array([learner.staleness.horizon_for(float(one)) for one in interval])
    lag = np.minimum(history, np.ceil(interval).astype(int))
    return 9 * np.maximum(lag - 1, 0), period, np.where(lag > 0, 16 + 3 * lag, 20) + (memory / period).astype(int)


def displacement(
    learner: Learner, dynamics: str, cells: Hyper, theta_star: np.ndarray, direction: np.ndarray, projector: np.ndarray
) -> list[np.ndarray]:
    """Displacement [n] of every cell at its sample points, 1 at step 0.

    Args:
      cells: Hyper of arrays [C]. theta_star: [C, D]. direction, projector: [D], a right and a left eigenvector of the
        stiffness, scaled to unit product, so that one mode is seen alone.

    Raises:
      ValueError: settings out of range, a staleness model that does not repeat itself.
    """
    cells = as_cells(cells)
    check_hyper(learner.staleness, cells)
    fixed = np.asarray(theta_star, np.float64)
    direction, projector = (np.broadcast_to(x, fixed.shape) for x in (direction, projector))
    first, stride, count = _span(learner, cells)
    twice = lambda x: np.concatenate([x, x])  # noqa: E731
    start = np.concatenate([fixed + SERIES_START * direction, fixed - SERIES_START * direction])
    watch = _Series(twice(first), twice(stride), twice(count + 1))
    lanes = DisplacedRuns(Hyper(*(twice(np.asarray(c)) for c in cells)), twice(fixed), start, twice(projector))
    run_displaced(learner, "finite_group" if dynamics == "sampled" else dynamics, lanes, watch)
    ahead, behind = watch.rows[: len(fixed)], watch.rows[len(fixed) :]
    return [(a - b) / (2 * SERIES_START) for a, b in zip(ahead, behind, strict=True)]


class _Series:
    """The readings of every cell at steps first, first + stride, ..., `count` of them; a `Watch`."""

    def __init__(self, first: np.ndarray, stride: np.ndarray, count: np.ndarray) -> None:
        self.first, self.stride, self.end = first, stride, first + stride * (count - 1) + 1
        self.rows = [np.full(n, np.nan) for n in count]

    def __call__(self, who: np.ndarray, first: np.ndarray, readings: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        end = self.end[who]
        lane, column, step = samples(first, self.first[who], self.stride[who], end, np.ones(len(who), bool))
        place = (step - self.first[who][lane]) // self.stride[who][lane]
        opens = np.searchsorted(lane, np.arange(len(who) + 1))
        for i, cell in enumerate(who):
            mine = slice(opens[i], opens[i + 1])
            self.rows[cell][place[mine]] = readings[i, column[mine]]
        return first + readings.shape[1] >= end


def _dominant_poles(
    learner: Learner, dynamics: str, cells: Hyper, theta_star: np.ndarray, direction: np.ndarray, projector: np.ndarray
) -> np.ndarray:
    """Dominant pole [C], complex, per sample point, a period of the staleness model apart."""
    series = displacement(learner, dynamics, cells, theta_star, direction, projector)
    return np.array([fit_poles(row, ORDER)[0] if np.all(np.isfinite(row)) else np.nan for row in series])


def oscillates(pole: np.ndarray) -> np.ndarray:
    """Whether a dominant pole is not real and positive. NaN counts as oscillating."""
    return ~((np.imag(pole) == 0) & (np.real(pole) > 0))


def learning_rate_onset(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    theta_star: np.ndarray,
    direction: np.ndarray,
    projector: np.ndarray,
    grid: np.ndarray,
) -> Boundary:
    """Smallest learning rate [C] at which the dominant pole of the stiffest mode is not real and positive."""

    def test(cells: Hyper, theta_star: np.ndarray) -> np.ndarray:
        return np.where(
            oscillates(_dominant_poles(learner, dynamics, cells, theta_star, direction, projector)), 1.0, -1.0
        )

    return first_crossing(test, cells, np.asarray(theta_star, float), grid)


def stiffest_mode(matrix: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(direction [D], projector [D]): right and left eigenvector of the largest stiffness, of unit product.

    matrix: [R, R] in `basis` [D, R], e.g. the measured relaxation matrix.
    """
    values, right = np.linalg.eig(matrix)
    index = int(np.argmax(values.real))
    left = np.linalg.inv(right)[index]
    return basis @ right[:, index].real, basis @ left.real
