"""Errors of one method beside others' on the same runs: is a difference more than the choice of runs?

Ratio of medians to the best of the others, "best" meant in hindsight, and chosen anew in every resample of the runs
(percentile bootstrap). Against each of the others, in how many runs the error is smaller (two-sided sign test, runs of
equal errors left out).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from bandit_lab import _checks
from bandit_lab.curves.record import Floats


@dataclass(frozen=True)
class Paired:
    """`ratio` of the median error to that of the best other method, and the 95 % of it that resampled runs give;
    `smaller` maps each other method to (runs in which the error is smaller, runs that differ, p of the sign test)."""

    ratio: float
    ratio_interval: tuple[float, float]
    smaller: Mapping[str, tuple[int, int, float]]


def compare(errors: Floats, others: Mapping[str, Floats], resamples: int = 2000, seed: int = 0) -> Paired:
    """Compare absolute `errors` [n] with the `others`' [n]; runs where any is not finite are left out.

    Raises ValueError for fewer than two runs or nothing to compare with.
    """
    _checks.require(bool(others), "others", "at least one method", 0)
    table = np.stack([np.asarray(values, float) for values in (errors, *others.values())])
    table = table[:, np.isfinite(table).all(axis=0)]
    _checks.require(table.shape[1] >= 2, "errors", "at least two runs", table.shape[1])
    drawn = np.random.default_rng(seed).integers(0, table.shape[1], (resamples, table.shape[1]))
    low, high = np.quantile(_ratio(table[:, drawn]), (0.025, 0.975))
    mine, smaller = table[0], {}
    for name, their in zip(others, table[1:], strict=True):
        better, differ = int((mine < their).sum()), int((mine != their).sum())
        chance = float(stats.binomtest(better, differ).pvalue) if differ else 1.0
        smaller[name] = (better, differ, chance)
    return Paired(float(_ratio(table)), (float(low), float(high)), smaller)


def _ratio(table: Floats) -> Floats:
    """Median of the first row over the smallest median of the others, [methods, ..., n] -> [...]."""
    medians = np.median(table, axis=-1)
    return np.asarray(medians[0] / np.maximum(medians[1:].min(axis=0), 1e-300))
