"""Numbers read off curves and point clouds, predicted or measured alike, and how often a run is looked at."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from bandit_lab.lab.reproduce.experiment import Results
from bandit_lab.lab.reproduce.readings import crossing, farthest_from_one


def blocks_between(blocks: float, checks: int) -> int:
    """Blocks from one of a run's checks to the next: an odd number, so both sides of an alternating run are seen."""
    return 2 * round((blocks / checks - 1) / 2) + 1


def time_ratios(time: np.ndarray, slow: np.ndarray, fast: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Time that a curve `slow` [T] takes from each of the `levels` [M + 1] to the next, over that of `fast` [M]."""
    first, second = ([crossing(time, curve, level) for level in levels] for curve in (slow, fast))
    return np.diff(first) / np.diff(second)


def read_at(curves: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Curves [C, T + 1] of steps 0..T, each read at its own times [C, P] in steps, linear between points."""
    steps = np.arange(curves.shape[1])
    return np.stack([np.interp(time, steps, curve) for time, curve in zip(times, curves, strict=True)])


def slope_within(groups: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Slope of y [N] on x [N] by least squares, with an intercept for each of the groups [N]."""
    x, y = (values - np.array([values[groups == one].mean() for one in groups]) for values in (x, y))
    return float(np.sum(x * y) / np.sum(x * x))


def slope_and_correlation(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """(slope, its standard error, correlation, its standard error) of y on x with an intercept; NaN pairs left out.

    Least squares; errors from the residuals (n - 2 degrees of freedom).
    """
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = np.asarray(x)[keep], np.asarray(y)[keep]
    correlation = float(np.corrcoef(x, y)[0, 1])
    scale = float(y.std() / x.std())
    left = float(np.sqrt(max(1 - correlation**2, 0.0) / (len(x) - 2)))
    return correlation * scale, left * scale, correlation, left


def share_of_curves(measured: Any, predicted: Any, allowed: Any, along: str) -> float:
    """Share of labelled curves that nowhere `along` their coordinate are farther from the predicted than allowed."""
    return float((abs(measured - predicted) <= allowed).all(along).mean())


def share_near_one(measured: Any, predicted: Any, within: float) -> float:
    """Share of what is predicted (numbers or arrays, plain or labelled) that is measured to `within` of it, relative.

    NaN in `predicted` is not predicted. NaN in `measured` alone is not near: nothing may hold because it was not found.
    """
    near = abs(measured / predicted - 1) <= within
    return float(np.sum(near) / np.sum(near | ~np.isnan(predicted)))


class Estimate(NamedTuple):
    """A measured number (or array) and its standard error, of the same shape."""

    value: np.ndarray
    error: np.ndarray


def jackknife(statistic: Callable[..., np.ndarray], *groups: np.ndarray) -> Estimate:
    """A statistic of averages over independent groups [N, ...], bias-corrected, and its standard error.

    With theta_(i) the statistic without group i: N theta - (N-1) mean theta_(i), and error^2 =
    (N-1)/N sum_i (theta_(i) - mean)^2.
    """
    size = len(groups[0])
    whole = statistic(*(g.mean(axis=0) for g in groups))
    sums = [g.sum(axis=0) for g in groups]
    parts = np.stack(
        [statistic(*((s - g[i]) / (size - 1) for s, g in zip(sums, groups, strict=True))) for i in range(size)]
    )
    centre = parts.mean(axis=0)
    error = np.sqrt((size - 1) / size * np.sum((parts - centre) ** 2, axis=0))
    return Estimate(size * whole - (size - 1) * centre, error)


def at_own_best(values: np.ndarray) -> tuple[np.ndarray, Estimate]:
    """Options compared where each is best: samples [..., O, R, N] of O options at R settings, paired over N.

    Returns:
      Mean of each option at the setting where it is largest [..., O], and how far it lies above the first option
      there, with standard error over the samples.
    """
    best = np.take_along_axis(values, values.mean(-1).argmax(-1)[..., None, None], -2)[..., 0, :]
    above = best - best[..., :1, :]
    return best.mean(-1), Estimate(above.mean(-1), above.std(-1) / np.sqrt(above.shape[-1]))


def where_any(name: str) -> Any:
    """Measured over predicted, farthest from 1 among those that have a number; NaN where another has none."""

    def read(results: Results) -> float:
        measured, predicted = (data[name].values for data in (results.measured, results.predicted))
        if np.any(np.isfinite(measured) != np.isfinite(predicted)):
            return float("nan")
        some = np.isfinite(predicted)
        return farthest_from_one(measured[some], predicted[some])

    return read


def effective_share(gap: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Effective sample size over sample size, 1/E_old (pi/pi_old)^2, of two arms; gaps up to 300 nats."""
    gap, old = np.clip(gap, -300, 300), np.clip(old, -300, 300)
    return np.asarray(1 / (expit(gap) ** 2 / expit(old) + expit(-gap) ** 2 / expit(-old)))
