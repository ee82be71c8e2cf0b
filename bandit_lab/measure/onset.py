"""Second detector: when does the approach to the fixed point begin to oscillate, read from the displacement itself.

Overshoot is exponentially small just beyond the onset, so the poles are identified instead: an autoregressive model is
fitted to the displacement (Prony's method) and its dominant root is looked at. The onset is where that root stops being
real and positive. `overshoot` is offered beside it, with a stated resolution, because it is what a person would see.
"""

import numpy as np

from bandit_lab.grpo import Hyper, Learner
from bandit_lab.measure.boundary import Boundary, first_crossing
from bandit_lab.measure.displaced import SERIES_START, series_blocks

SAMPLES = 32  # sample points of a fit with block points; the refresh model has two poles there, the pipeline three
_LAG_BURN_IN, _LAG_WINDOW = 9, 3  # in units of N + 1: a constant lag has N + 2 poles, all but two must have died
_NOISE = 1e-15 / SERIES_START  # rounding error of a displacement, relative to the first
_RANK = 1e-9  # smallest singular value of a fit, relative to the largest, that counts as information


def fit_poles(series: np.ndarray, order: int) -> np.ndarray:
    """Poles [order] of one displacement series by a least-squares linear recurrence, largest modulus first.

    The recurrence is written in repeated differences, sum_i c_i Delta^i x = 0, so that poles near 1 do not cancel, and
    solved with the smallest norm where the data have fewer poles than `order`; the roots that this invents are smaller
    than the true ones. Rows are scaled to the size of their entries, and end where rounding errors begin.
    """
    usable = np.abs(series) > 1e3 * _NOISE * np.abs(series[0])
    length = len(series) if usable.all() else int(np.argmin(usable))
    series = series[: max(length, order + 1)]
    if length <= order:  # dead within the order: as fast as it can be seen, no oscillation to tell from
        ratio = series[1] / series[0]
        return np.concatenate([[ratio], np.zeros(order - 1)]).astype(complex)
    rows = np.lib.stride_tricks.sliding_window_view(series, order + 1)
    scale = np.max(np.abs(rows), axis=1, keepdims=True)
    rows = rows / scale
    solution = np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=_RANK)[0]
    roots = np.roots(np.concatenate([[1.0], -solution[::-1]]))
    return roots[np.argsort(-np.abs(roots))]
