"""Rows of a sweep's results: per cell of the other axes, where stability is lost, measured beside predicted."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab.app.document import ABSENT, Column, On, Value
from bandit_lab.lab.predict.linear import RateThreshold
from bandit_lab.lab.sweep.exact import NO_RINGING, DriftResult
from bandit_lab.lab.sweep.sampled import SampledResult
from bandit_lab.loop import Loop, Reason

OUTSIDE = "not bracketed by the grid's learning rates"
SampledAt = Callable[[int], Value]


@dataclass(frozen=True)
class SweepRow:
    """One cell of the other axes. `sampled` and `bifurcation` are ABSENT where a row cannot have them.

    measured, exact, law: learning rates, or refresh intervals in steps. error: measured over exact, less 1.
    """

    drift: str
    momentum: float
    kl_weight: float
    measured: Value
    exact: Value
    law: Value
    error: Value
    refresh_interval: Any = ABSENT
    learning_rate: Any = ABSENT
    sampled: Any = ABSENT
    bifurcation: Any = ABSENT


def columns(boundary: str) -> tuple[Column[SweepRow], ...]:
    """Columns of a row in `summary.json`. boundary: what is bracketed, learning_rate or refresh_interval."""
    unit = "steps" if boundary == "refresh_interval" else "logits per unit gradient"
    return (
        Column("drift", "drift", lambda row: row.drift),
        Column("refresh_interval", "N", lambda row: row.refresh_interval, unit="steps"),
        Column("learning_rate", "eta", lambda row: row.learning_rate),
        Column("momentum", "mu", lambda row: row.momentum),
        Column("kl_weight", "beta", lambda row: row.kl_weight, unit="reward per nat"),
        Column(f"measured_{boundary}", "measured", lambda row: row.measured, unit=unit, digits=5),
        Column("exact", "exact", lambda row: row.exact, unit=unit, digits=5),
        Column("leading_order", "law", lambda row: row.law, unit=unit, digits=5),
        Column("relative_error", "rel. error", lambda row: row.error, digits=2),
        Column("sampled_learning_rate", "sampled", lambda row: row.sampled, unit=unit, digits=3),
        Column("bifurcation", "bifurcation", lambda row: row.bifurcation, on=On.JSON),
    )


def of_learning_rate(drift: DriftResult, sampled: SampledResult | None) -> tuple[list[SweepRow], list[SweepRow]]:
    """(threshold, transition): one row each per cell, in the learning rate; `sampled` adds the boundary of its runs."""
    at, late = None if sampled is None else _sampled_at(sampled, drift), f"{NO_RINGING}, or {OUTSIDE}"
    threshold = _rate_rows(drift, drift.boundary, drift.predicted.exact, drift.predicted.law, OUTSIDE, at)
    predicted, late = drift.predicted, drift.no_onset or late
    return threshold, _rate_rows(drift, drift.onset, predicted.onset, predicted.oscillator_onset, late)


def of_refresh_interval(drift: DriftResult, rates: np.ndarray) -> tuple[list[SweepRow], list[SweepRow]]:
    """(threshold, transition): one row each per cell and learning rate, in the refresh interval."""
    threshold = _interval_rows(drift, rates, drift.growth > 0, _exactly_unstable(drift, rates), drift.reasons)
    reasons = [reason or drift.no_onset for reason in drift.reasons]
    return threshold, _interval_rows(drift, rates, drift.rings > 0, _exactly_ringing(drift, rates), reasons)


def _sampled_at(sampled: SampledResult, drift: DriftResult) -> SampledAt:
    keys = list(zip(*(np.asarray(c).tolist() for c in sampled.planned.rows[1:]), strict=True))

    def at(row: int) -> Value:
        q = keys.index(tuple(np.asarray(column)[row].item() for column in drift.cells[1:]))
        return sampled.boundary_at(q)

    return at


def _rate_rows(
    drift: DriftResult,
    measured: np.ndarray,
    exact: list[RateThreshold],
    law: list[RateThreshold],
    missing: str,
    sampled_at: SampledAt | None = None,
) -> list[SweepRow]:
    """One row per cell of the other axes. missing: why a threshold that could be measured was not found."""
    cells, result = drift.cells, []
    for i, (seen, true) in enumerate(zip(measured, exact, strict=True)):
        why = drift.reasons[i] or missing
        known = np.isfinite(seen) and true.value
        error = seen / true.value - 1 if known else None
        result.append(
            SweepRow(
                drift.name,
                float(cells.momentum[i]),
                float(cells.kl_weight[i]),
                Value.of(seen, why),
                true,
                law[i],
                Value.of(error, drift.reasons[i] or true.reason or true.note or missing),
                refresh_interval=cells.refresh_interval[i].item(),
                sampled=ABSENT if sampled_at is None else sampled_at(i),
                bifurcation=true.bifurcation,
            )
        )
    return result


def _exactly_unstable(drift: DriftResult, rates: np.ndarray) -> np.ndarray:
    """[R, L] whether the linear loop is unstable, NaN where there is no linear theory."""
    result = np.full((len(drift.boundary), len(rates)), np.nan)
    for i in range(len(result)):
        linear = drift.equilibrium(float(drift.cells.kl_weight[i])).linear
        if linear.unsupported_reason() is None:
            loop = linear.loop(float(drift.cells.momentum[i]), drift.cells.refresh_interval[i].item())
            result[i] = [abs(_largest(loop, rate)) >= 1 for rate in rates]
    return result


def _largest(loop: Loop, rate: float) -> complex:
    found = loop.multipliers(rate)
    return math.nan if isinstance(found, Reason) else complex(found[0])


def _exactly_ringing(drift: DriftResult, rates: np.ndarray) -> np.ndarray:
    onset = np.array([np.nan if v.value is None else v.value for v in drift.predicted.onset])
    return np.where(np.isnan(onset)[:, None], np.nan, rates >= onset[:, None])


def _interval_rows(
    drift: DriftResult, rates: np.ndarray, measured: np.ndarray, exact: np.ndarray, reasons: list[str | None]
) -> list[SweepRow]:
    """The same rows with the refresh interval bracketed at every learning rate. reasons: [R] why there is none."""
    first = np.unique(drift.cells.refresh_interval)
    shape = (-1, len(first), len(rates))
    seen, true = measured.reshape(shape), exact.reshape(shape)
    none = f"none of the grid's refresh intervals {first[0]}..{first[-1]}"
    result = []
    for g, start in enumerate(range(0, len(drift.boundary), len(first))):
        momentum, weight = float(drift.cells.momentum[start]), float(drift.cells.kl_weight[start])
        reason, linear = reasons[start], drift.equilibrium(weight).linear
        unknown, law = linear.unsupported_reason(), linear.law(1, momentum).value
        for j, rate in enumerate(rates):
            at = None if reason else _first(seen[g, :, j], first)
            should = None if np.isnan(true[g, 0, j]) else _first(true[g, :, j] > 0, first)
            error = None if at is None or not should else at / should - 1
            result.append(
                SweepRow(
                    drift.name,
                    momentum,
                    weight,
                    Value.of(at, reason or none),
                    Value.of(should, unknown or none),
                    Value.of(None if law is None else law / rate, unknown or "the fixed point repels"),
                    Value.of(error, reason or unknown or none),
                    learning_rate=rate,
                )
            )
    return result


def _first(flags: np.ndarray, intervals: np.ndarray) -> float | None:
    return intervals[np.argmax(flags)].item() if np.any(flags) else None
