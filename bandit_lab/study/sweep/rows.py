"""Rows of a sweep's summary: per cell of the other axes, where stability is lost, measured beside predicted."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bandit_lab.study.folder.store import with_reasons
from bandit_lab.study.sweep.exact import NO_RINGING, DriftResult
from bandit_lab.study.sweep.sampled import SampledResult
from bandit_lab.study.wiring import Threshold
from bandit_lab.theory.stability import eigenvalues

Row = dict[str, Any]
OUTSIDE = "not bracketed by the grid's learning rates"


def of_learning_rate(drift: DriftResult, sampled: SampledResult | None) -> tuple[list[Row], list[Row]]:
    """(threshold, transition): one row each per cell, in the learning rate; `sampled` adds the boundary of its runs."""
    at, late = None if sampled is None else _sampled_at(sampled, drift), f"{NO_RINGING}, or {OUTSIDE}"
    threshold = _rows(drift, drift.boundary, drift.predicted.exact, drift.predicted.law, OUTSIDE, at)
    return threshold, _rows(drift, drift.onset, drift.predicted.onset, drift.predicted.oscillator_onset, late, None)


def of_refresh_interval(drift: DriftResult, rates: np.ndarray) -> tuple[list[Row], list[Row]]:
    """(threshold, transition): one row each per cell and learning rate, in the refresh interval."""
    threshold = _interval_rows(drift, rates, drift.growth > 0, _exactly_unstable(drift, rates))
    return threshold, _interval_rows(drift, rates, drift.rings > 0, _exactly_ringing(drift, rates))


def _sampled_at(sampled: SampledResult, drift: DriftResult) -> Callable[[int], tuple[float, str | None]]:
    keys = list(zip(*(np.asarray(c).tolist() for c in sampled.rows[1:]), strict=True))

    def at(row: int) -> tuple[float, str | None]:
        q = keys.index(tuple(np.asarray(column)[row].item() for column in drift.cells[1:]))
        return float(sampled.boundary[q]), sampled.reasons[q]

    return at


def _rows(
    drift: DriftResult,
    measured: np.ndarray,
    exact: list[Threshold],
    leading: list[Threshold],
    missing: str,
    sampled_at: Any,
) -> list[Row]:
    """One row per cell of the other axes: what was measured, what is predicted, how far apart."""
    result = []
    for i in range(len(measured)):
        values = {
            "measured_learning_rate": float(measured[i]),
            "exact": exact[i].value,
            "leading_order": leading[i].value,
            "relative_error": _relative(float(measured[i]), exact[i].value),
        }
        why = {
            "measured_learning_rate": drift.reasons[i] or missing,
            "exact": exact[i].reason,
            "leading_order": leading[i].reason,
            "relative_error": drift.reasons[i] or exact[i].reason or exact[i].note or missing,
        }
        if sampled_at is not None:
            values["sampled_learning_rate"], reason = sampled_at(i)
            why["sampled_learning_rate"] = reason or ""
        result.append(_key(drift, i) | with_reasons(values, why) | {"bifurcation": exact[i].bifurcation})
    return result


def _key(drift: DriftResult, row: int) -> Row:
    cells = drift.cells
    return {
        "drift": drift.name,
        "refresh_interval": cells.refresh_interval[row].item(),
        "momentum": float(cells.momentum[row]),
        "kl_weight": float(cells.kl_weight[row]),
    }


def _relative(measured: float, exact: float | None) -> float | None:
    return None if exact is None or not np.isfinite(measured) or exact == 0 else measured / exact - 1


def _exactly_unstable(drift: DriftResult, rates: np.ndarray) -> np.ndarray:
    """[R, L] whether the linear loop is unstable, NaN where there is no linear theory."""
    result = np.full((len(drift.boundary), len(rates)), np.nan)
    for i in range(len(result)):
        linear = drift.ground(float(drift.cells.kl_weight[i])).linear
        if linear.why_not() is None:
            maps = linear.loop(float(drift.cells.momentum[i])).map(rates, drift.cells.refresh_interval[i].item())
            result[i] = np.abs(eigenvalues(maps)[..., 0]) >= 1
    return result


def _exactly_ringing(drift: DriftResult, rates: np.ndarray) -> np.ndarray:
    onset = np.array([np.nan if v.value is None else v.value for v in drift.predicted.onset])
    return np.where(np.isnan(onset)[:, None], np.nan, rates >= onset[:, None])


def _interval_rows(drift: DriftResult, rates: np.ndarray, measured: np.ndarray, exact: np.ndarray) -> list[Row]:
    """The same rows with the refresh interval bracketed at every learning rate."""
    first = np.unique(drift.cells.refresh_interval)
    shape = (-1, len(first), len(rates))
    seen, true = measured.reshape(shape), exact.reshape(shape)
    result = []
    for g, start in enumerate(range(0, len(drift.boundary), len(first))):
        momentum, weight = float(drift.cells.momentum[start]), float(drift.cells.kl_weight[start])
        reason, linear = drift.reasons[start], drift.ground(weight).linear
        law = linear.law(1, momentum).value
        for j, rate in enumerate(rates):
            at = None if reason else _first(seen[g, :, j], first)
            should = None if np.isnan(true[g, 0, j]) else _first(true[g, :, j] > 0, first)
            none = f"none of the grid's refresh intervals {first[0]}..{first[-1]}"
            values = {
                "measured_refresh_interval": at,
                "exact": should,
                "leading_order": None if law is None else law / rate,
                "relative_error": None if at is None or not should else at / should - 1,
            }
            why = {
                "measured_refresh_interval": reason or none,
                "exact": linear.why_not() or none,
                "leading_order": linear.why_not() or "the fixed point repels",
                "relative_error": reason or linear.why_not() or none,
            }
            key = {"drift": drift.name, "learning_rate": rate, "momentum": momentum, "kl_weight": weight}
            result.append(key | with_reasons(values, why))
    return result


def _first(flags: np.ndarray, intervals: np.ndarray) -> float | None:
    return intervals[np.argmax(flags)].item() if np.any(flags) else None
