"""Fair times on a shared machine: implementations in turn, several times, and the median of ratios of neighbours."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.engines import Run
from benchmarks.numpy_reference import Curves, pooled

SLICE = 0.2  # seconds that a repetition lasts at least: short runs are repeated inside it
POINTS = 9  # steps at which curves are compared
FLOAT32 = 3e-7  # error of a mean that float32 excuses


class Timed(NamedTuple):
    """seconds: [reps] per call, the median within each repetition. curves: of all calls together."""

    seconds: np.ndarray
    curves: Curves


class TimeRatio(NamedTuple):
    """Median over repetitions, and the smallest and largest."""

    median: float
    low: float
    high: float


def in_turn(runs: Mapping[str, Run], reps: int, seed: int, least: float = SLICE) -> dict[str, Timed]:
    """Time every implementation in every repetition. Seeds are never used twice."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    curves: dict[str, list[Curves]] = {name: [] for name in runs}
    for _ in range(reps):
        for name, run in runs.items():
            inside: list[float] = []
            begin = time.perf_counter()
            while not inside or (time.perf_counter() - begin < least and len(inside) < 100):
                number = seed + 1 + len(curves[name])
                start = time.perf_counter()
                curve = run(number)
                inside.append(time.perf_counter() - start)
                curves[name].append(curve)
            seconds[name].append(float(np.median(inside)))
    return {name: Timed(np.array(seconds[name]), pooled(curves[name])) for name in runs}


def ratio(slow: np.ndarray, fast: np.ndarray, work: float = 1.0) -> TimeRatio:
    """How many times faster `fast` is, neighbour by neighbour. work: of `fast` over that of `slow`."""
    each = slow / fast * work
    return TimeRatio(float(np.median(each)), float(each.min()), float(each.max()))


def agreement(one: Curves, other: Curves, kurtosis: np.ndarray | None) -> dict[str, float | int]:
    """Largest |z| of mean and of log variance over nine well-spaced steps; without kurtosis (exact curves) the largest
    differences over all steps. kurtosis: [>= T] of J, from which the error of a variance follows.
    """
    steps = min(len(one.mean), len(other.mean))
    (m1, v1), (m2, v2) = ((curve.mean[:steps], curve.variance[:steps]) for curve in (one, other))
    if kurtosis is None:
        return {
            "steps": steps,
            "mean_difference": float(np.abs(m1 - m2).max()),
            "variance_difference": float(np.abs(v1 - v2).max()),
        }
    at = np.unique(np.linspace(1, steps - 1, POINTS).astype(int))
    z_mean = np.abs(m1 - m2)[at] / np.sqrt(v1[at] / one.count + v2[at] / other.count + FLOAT32**2)
    seen = at[(v1[at] > 1e-10) & (v2[at] > 1e-10)]
    error = np.sqrt(np.maximum(kurtosis[seen] - 1, 0.1) * (1 / one.count + 1 / other.count))
    z_variance = np.abs(np.log(v1[seen] / v2[seen])) / error
    return {"steps": steps, "mean_z": float(z_mean.max()), "variance_z": float(z_variance.max(initial=0.0))}
