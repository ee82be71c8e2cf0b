"""`summary.json` of a sweep, and its table."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bandit_lab._types import Outcome
from bandit_lab.measure import count_outcomes
from bandit_lab.simulate import route
from bandit_lab.simulate.fast import DEFAULT_GENERATOR
from bandit_lab.study.folder.store import with_reasons
from bandit_lab.study.sweep.exact import NO_RINGING, DriftResult, stiffness_summary
from bandit_lab.study.sweep.plan import SweepPlan
from bandit_lab.study.sweep.sampled import SampledResult
from bandit_lab.study.terminal import report
from bandit_lab.study.wiring import Value
from bandit_lab.theory.stability import eigenvalues

OUTSIDE = "not bracketed by the grid's learning rates"
THRESHOLD_NAMES = {
    "leading_order": "law",
    "exact": "exact threshold",
    "measured_learning_rate": "measured threshold",
    "sampled_learning_rate": "sampled boundary",
}
ONSET_NAMES = {"exact": "exact onset", "measured_learning_rate": "measured onset"}
INTERVAL_NAMES = {"leading_order": "law", "exact": "exact", "measured_refresh_interval": "measured"}
TEMPERATURE = (
    "At finite temperature (finite G) noise carries runs off the fixed point before it loses stability: the sampled "
    "boundary lies below the deterministic one"
)


def summarise(
    plan: SweepPlan, rates: np.ndarray, drifts: list[DriftResult], sampled: SampledResult | None
) -> dict[str, Any]:
    """Everything but `throughput`."""
    by_interval = plan.settings.boundary == "refresh_interval"
    threshold, transition = [], []
    for drift in drifts:
        at = _sampled_at(sampled, drift) if sampled and drift.dynamics == "finite_group" else None
        if by_interval:
            threshold += _interval_rows(drift, rates, drift.growth > 0, _exactly_unstable(drift, rates))
            transition += _interval_rows(drift, rates, drift.rings > 0, _exactly_ringing(drift, rates))
        else:
            threshold += _rows(drift, drift.boundary, drift.predicted.exact, drift.predicted.law, OUTSIDE, at)
            late = f"{NO_RINGING}, or {OUTSIDE}"
            transition += _rows(drift, drift.onset, drift.predicted.onset, drift.predicted.oscillator_onset, late, None)
    outcomes: dict[str, Any] = count_outcomes(drifts[0].outcome)
    return {
        "axes": {
            "momentum": plan.momentum,
            "kl_weight": plan.kl_weight,
            "refresh_interval": plan.refresh_interval,
            "learning_rate": rates,
        },
        "drift": [drift.name for drift in drifts],
        "convention": plan.learner.optimizer.convention,
        "boundary": plan.settings.boundary,
        "outcomes": outcomes,
        "outcomes_of": f"deterministic runs near the fixed point, drift at {drifts[0].name}",
        "sampled": None if sampled is None else _engine(plan) | _sampled_summary(sampled, threshold),
        "threshold": threshold,
        "transition": transition,
        "stiffness": _stiffness(drifts),
    }


def _stiffness(drifts: list[DriftResult]) -> dict[str, Any]:
    """The routes for the first drift and KL weight on top, all of them under `rows`."""
    entries = [entry for drift in drifts for entry in stiffness_summary(drift, report.spectrum)]
    return {**entries[0], "rows": entries}


def _engine(plan: SweepPlan) -> dict[str, Any]:
    """Which path ran, why not the fast one, and where its random numbers come from."""
    chosen = route(plan.learner, "sampled", plan.settings.path)
    fast = chosen.name == "fast"
    why_not = {} if fast else {"path_reason": chosen.reason}
    return {"path": chosen.name, "rng": plan.settings.rng or DEFAULT_GENERATOR if fast else "jax.random"} | why_not


def _sampled_summary(sampled: SampledResult, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "outcomes": {o.label: int(n) for o, n in zip(Outcome, sampled.counts.sum(axis=(0, 1)), strict=True)},
        "note": f"{TEMPERATURE}{_how_often(rows)}",
        "rows": [
            {
                "momentum": sampled.rows.momentum[q],
                "kl_weight": sampled.rows.kl_weight[q],
                "refresh_interval": sampled.rows.refresh_interval[q],
                **with_reasons(
                    {"boundary_learning_rate": sampled.boundary[q]},
                    {"boundary_learning_rate": sampled.reasons[q] or ""},
                ),
                "learning_rate": sampled.learning_rate[q],
                "lost_share": sampled.lost[q],
            }
            for q in range(len(sampled.boundary))
        ],
    }


def _how_often(rows: list[dict[str, Any]]) -> str:
    """In how many rows that is what was seen."""
    pairs = [(row.get("sampled_learning_rate"), row.get("exact")) for row in rows]
    known = [sampled < exact for sampled, exact in pairs if sampled is not None and exact is not None]
    if not known:
        return " (no row brackets it here)."
    doubt = "" if all(known) else "; elsewhere the runs are too short or the grid too coarse to tell"
    return f" in {sum(known)} of {len(known)} rows{doubt}."


def _sampled_at(sampled: SampledResult, drift: DriftResult) -> Callable[[int], tuple[float, str | None]]:
    keys = list(zip(*(np.asarray(c).tolist() for c in sampled.rows[1:]), strict=True))

    def at(row: int) -> tuple[float, str | None]:
        q = keys.index(tuple(np.asarray(column)[row].item() for column in drift.cells[1:]))
        return float(sampled.boundary[q]), sampled.reasons[q]

    return at


def _rows(
    drift: DriftResult, measured: np.ndarray, exact: list[Value], leading: list[Value], missing: str, sampled_at: Any
) -> list[dict[str, Any]]:
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
            "exact": exact[i].reason or "",
            "leading_order": leading[i].reason or "",
            "relative_error": drift.reasons[i] or exact[i].reason or missing,
        }
        if sampled_at is not None:
            values["sampled_learning_rate"], reason = sampled_at(i)
            why["sampled_learning_rate"] = reason or ""
        result.append(_key(drift, i) | with_reasons(values, why) | {"bifurcation": exact[i].bifurcation})
    return result


def _key(drift: DriftResult, row: int) -> dict[str, Any]:
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


def _interval_rows(
    drift: DriftResult, rates: np.ndarray, measured: np.ndarray, exact: np.ndarray
) -> list[dict[str, Any]]:
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


def print_summary(plan: SweepPlan, summary: dict[str, Any]) -> None:
    """Short tables: stiffness by its routes, thresholds at a few refresh intervals or learning rates."""
    form = report.FORMS.get(summary["convention"], summary["convention"])
    settings = plan.settings
    what = " ".join([settings.bandit["name"], settings.advantage["name"], settings.estimator["name"]])
    report.show(f"{what}, staleness {settings.staleness['name']}; momentum convention: {form}")
    stiffness = report.new_table(
        "stiffness (reward / logit^2)", "drift", "beta", "Hessian", "closed form", "relaxation"
    )
    for row in summary["stiffness"]["rows"]:
        cells = (report.numbers(row[key], 8) for key in ("hessian", "closed_form", "relaxation"))
        stiffness.add_row(row["drift"], f"{row['kl_weight']:g}", *cells)
    report.show(stiffness)
    for row in summary["stiffness"]["rows"]:
        if row.get("critical_kl_weight") is not None or row.get("relaxation_reason"):
            more = row.get("critical_kl_weight")
            hint = f"; one exists from kl_weight = {more:.5g}" if more is not None else ""
            report.show(f"{row['drift']}, beta = {row['kl_weight']:g}: {row['relaxation_reason']}{hint}")
    by_interval = summary["boundary"] == "refresh_interval"
    report.show(*(_interval_report(summary) if by_interval else _rate_report(plan, summary)))
    errors = [abs(r["relative_error"]) for r in summary["threshold"] if r["relative_error"] is not None]
    ring = [abs(r["relative_error"]) for r in summary["transition"] if r["relative_error"] is not None]
    report.show(
        f"largest relative error against the exact theory: threshold {report.number(max(errors, default=None), 2)} "
        f"({len(errors)} rows), onset of oscillation {report.number(max(ring, default=None), 2)} ({len(ring)} rows)"
    )
    if summary["sampled"] is not None:
        sampled = summary["sampled"]
        reason = f" ({sampled['path_reason']})" if "path_reason" in sampled else ""
        report.show(f"sampled runs: {sampled['path']} path{reason}, random numbers {sampled['rng']}")
        report.show(sampled["note"])


def _rate_report(plan: SweepPlan, summary: dict[str, Any]) -> list[Any]:
    """The table of a few rows, why cells of it are empty, and how many rows it leaves out."""
    columns = ["drift", "mu", "N", "law", "exact", "measured", "rel. error", "onset exact", "onset measured", "sampled"]
    table = report.new_table(
        "learning rate (eta) at which stability is lost, and at which oscillation begins", *columns
    )
    chosen = _few(plan)
    pairs = list(zip(summary["threshold"], summary["transition"], strict=True))
    shown = [p for p in pairs if p[0]["refresh_interval"] in chosen and p[0]["kl_weight"] == plan.kl_weight[0]]
    for row, ring in shown:
        table.add_row(
            row["drift"],
            f"{row['momentum']:g}",
            f"{row['refresh_interval']:g}",
            *(report.number(row[key], 5) for key in ("leading_order", "exact", "measured_learning_rate")),
            report.number(row["relative_error"], 2),
            *(report.number(ring[key], 5) for key in ("exact", "measured_learning_rate")),
            report.number(row.get("sampled_learning_rate"), 3),
        )
    thresholds, onsets = ([pair[part] for pair in shown] for part in (0, 1))
    empty = _empty(thresholds, THRESHOLD_NAMES) + _empty(onsets, ONSET_NAMES)
    return [table, *empty, *_left_out(len(shown), len(pairs))]


def _empty(rows: list[dict[str, Any]], names: dict[str, str]) -> list[str]:
    """One line per reason why cells of the table are empty."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        for key, name in names.items():
            if row.get(key) is None and (reason := row.get(f"{key}_reason")):
                of = counts.setdefault(reason, {})
                of[name] = of.get(name, 0) + 1
    rows_of = lambda n: f"{n} row" + "s" * (n > 1)  # noqa: E731
    where = {reason: ", ".join(f"{name} ({rows_of(n)})" for name, n in of.items()) for reason, of in counts.items()}
    return [f"No {cells}: {reason}." for reason, cells in where.items()]


def _left_out(shown: int, rows: int) -> list[str]:
    return [f"{shown} of {rows} rows; all of them are in summary.json and results.zarr"] if shown < rows else []


def _few(plan: SweepPlan) -> set[float]:
    from bandit_lab.study.settings.grid import log_spaced_choice

    few = plan.sampled_interval if len(plan.sampled_interval) else log_spaced_choice(plan.refresh_interval, 4)
    return {n.item() for n in few}


def _interval_report(summary: dict[str, Any]) -> list[Any]:
    table = report.new_table(
        "refresh interval (steps) at which stability is lost", "drift", "mu", "eta", "law", "exact", "measured"
    )
    rows = summary["threshold"]
    shown = rows[:: max(1, len(rows) // 16)]
    for row in shown:
        numbers = (report.number(row[key], 5) for key in ("leading_order", "exact", "measured_refresh_interval"))
        table.add_row(row["drift"], f"{row['momentum']:g}", report.number(row["learning_rate"], 4), *numbers)
    return [table, *_empty(shown, INTERVAL_NAMES), *_left_out(len(shown), len(rows))]
