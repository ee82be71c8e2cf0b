"""The results of a sweep: `summary.json`, and on the terminal a verdict and one table."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.app.result import Figure, Result, Table, Value, eigenvalues, number
from bandit_lab.app.settings.names import FORMS
from bandit_lab.grpo import resampled
from bandit_lab.lab.sweep.jobs import NO_RINGING, Computed, DriftResult, Equilibrium
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.lab.sweep.sampled import SampledResult
from bandit_lab.loop import RateCrossing, Reason
from bandit_lab.measure import count_outcomes
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import route
from bandit_lab.simulation.fast import DEFAULT_GENERATOR

if TYPE_CHECKING:
    import xarray

Row = dict[str, Any]
TEMPERATURE = (
    "At finite temperature (finite G) noise carries runs off the fixed point before it loses stability: the sampled "
    "boundary is below the deterministic one"
)
NO_FORMULA = "no formula for this bandit, advantage and group size"
OUTSIDE = "not bracketed by the grid's learning rates"
SHOWN_AGAIN = 8
"""Rows that are stable again beyond the threshold, of which a line says so."""


def result_of(plan: SweepPlan, done: Computed, data: "xarray.Dataset") -> Result:
    """Everything that a sweep found. data: see `dataset`."""
    rates, drifts, sampled = done.rates, done.drifts, done.sampled
    thresholds: list[Row] = []
    onsets: list[Row] = []
    for drift in drifts:
        if plan.settings.boundary == "refresh_interval":
            drift_rows = _of_refresh_interval(drift, rates)
        else:
            drift_rows = _of_learning_rate(drift, sampled if drift.dynamics == "finite_group" else None)
        thresholds += drift_rows[0]
        onsets += drift_rows[1]
    stiffness = [_stiffness(drift.name, equilibrium) for drift in drifts for equilibrium in drift.equilibria.values()]
    about: Row = {
        "verdict": verdict(data),
        "axes": {name: data[name].values for name in ("momentum", "kl_weight", "refresh_interval", "learning_rate")},
        "drift": [drift.name for drift in drifts],
        "convention": plan.learner.optimizer.convention,
        "boundary": plan.settings.boundary,
        "outcomes": count_outcomes(drifts[0].outcome),
        "outcomes_of": f"deterministic runs near the fixed point, drift at {drifts[0].name}",
        "sampled": None if sampled is None else _engine(plan) | _sampled(plan, sampled, thresholds),
    }
    about |= {"schedule": {name: getattr(plan.settings, name) for name in plan.curves}} if plan.curves else {}
    content = {"threshold": thresholds, "transition": onsets, "stiffness": stiffness[0] | {"rows": stiffness}}
    work = {"throughput": done.throughput, "chunks": done.chunks}
    shown = [
        about["verdict"],
        _what(plan),
        Table("", [_shown(*pair) for pair in zip(thresholds, onsets, strict=True)]),
        *_again(drifts, rates),
        *_missing(thresholds),
        *(f"{row['drift']}, beta = {row['kl_weight']:g}: {row['note']}" for row in stiffness if "note" in row),
        *([] if sampled is None else [about["sampled"]["note"]]),
    ]
    return Result("Sweep", about | content | work, shown, data=data, figures=figures_of(data))


def figures_of(results: "xarray.Dataset") -> list[Figure]:
    """The phase diagram, unless there is one refresh interval or learning rate, and the examples, if there are any."""

    def draw(name: str, *axes: Any, **which: Any) -> Any:
        from bandit_lab.lab.sweep import pictures

        return getattr(pictures, name)(*axes, results, **which)

    figures = []
    if min(results.sizes["refresh_interval"], results.sizes["learning_rate"]) > 1:
        figures.append(Figure("phase_diagram", partial(draw, "phase_diagram"), partial(draw, "draw_on")))
    if "example_reward" in results:
        figures.append(Figure("trajectories", partial(draw, "trajectory_panels")))
    return figures


def verdict(results: "xarray.Dataset") -> str:
    """At which learning rates stability is lost, as measured or else as predicted: in units of the law's, if there is
    a law."""
    who = results.attrs["setting"].rpartition(", ")[2]
    at = results["threshold_measured"].fillna(results["threshold_exact"])
    of_law = at / results["threshold_law"]
    for thresholds, text in ((of_law, "{} times the law's learning rate"), (at, "learning rates of {}")):
        finite = thresholds.values[np.isfinite(thresholds.values)]
        if finite.size:
            ends = dict.fromkeys(f"{end:.3g}" for end in (finite.min(), finite.max()))
            return f"{who}: stability is lost at {text.format(' to '.join(ends))}"
    return f"{who}: no threshold is known"


def _of_learning_rate(drift: DriftResult, sampled: SampledResult | None) -> tuple[list[Row], list[Row]]:
    """(threshold, transition): one row each per cell, in the learning rate; `sampled` adds the boundary of its runs."""
    predicted = drift.predicted
    threshold = _rate_rows(drift, drift.boundary, predicted.exact, predicted.law, OUTSIDE)
    for row, windows in zip(threshold, drift.stable_again, strict=True):
        row["stable_again"] = windows
    late = drift.no_onset or f"{NO_RINGING}, or {OUTSIDE}"
    onset = _rate_rows(drift, drift.onset, predicted.onset, predicted.oscillator_onset, late)
    if sampled is not None:
        for place, row in enumerate(threshold):  # of this drift they are the rows of the sampled grid
            row["sampled_learning_rate"] = sampled.boundary_at(place)
    return threshold, onset


def _rate_rows(
    drift: DriftResult, measured: np.ndarray, exact: list[RateCrossing], law: list[RateCrossing], missing: str
) -> list[Row]:
    """One row per cell of the other axes. missing: why a threshold that could be measured was not found."""
    cells, result = drift.cells, []
    for i, (seen, true) in enumerate(zip(measured, exact, strict=True)):
        error = seen / true.value - 1 if np.isfinite(seen) and true.value else None
        result.append(
            {
                "drift": drift.name,
                "refresh_interval": cells.refresh_interval[i].item(),
                "momentum": float(cells.momentum[i]),
                "kl_weight": float(cells.kl_weight[i]),
                "measured_learning_rate": Value.of(seen, drift.reasons[i] or missing),
                "exact": Value.of(true.value, true.reason or ""),
                "leading_order": Value.of(law[i].value, law[i].reason or ""),
                "relative_error": Value.of(error, drift.reasons[i] or true.reason or missing),
                "bifurcation": true.kind,
            }
        )
    return result


def _of_refresh_interval(drift: DriftResult, rates: np.ndarray) -> tuple[list[Row], list[Row]]:
    """(threshold, transition): one row each per cell and learning rate, in the refresh interval."""
    onset = np.array([np.nan if v.value is None else v.value for v in drift.predicted.onset])
    ringing = np.where(np.isnan(onset)[:, None], np.nan, rates >= onset[:, None])
    threshold = _interval_rows(drift, rates, drift.growth > 0, _exactly_unstable(drift, rates), drift.reasons)
    reasons = [reason or drift.no_onset for reason in drift.reasons]
    return threshold, _interval_rows(drift, rates, drift.rings > 0, ringing, reasons)


def _exactly_unstable(drift: DriftResult, rates: np.ndarray) -> np.ndarray:
    """[R, L] whether the linear loop is unstable, NaN where there is no linear theory."""
    result = np.full((len(drift.boundary), len(rates)), np.nan)
    for i in range(len(result)):
        linear = drift.equilibria[float(drift.cells.kl_weight[i])].linear
        if linear.unsupported_reason() is None:
            loop = linear.loop(float(drift.cells.momentum[i]), drift.cells.refresh_interval[i].item())
            multipliers = (loop.multipliers(rate) for rate in rates)
            result[i] = [abs(math.nan if isinstance(one, Reason) else complex(one[0])) >= 1 for one in multipliers]
    return result


def _interval_rows(
    drift: DriftResult, rates: np.ndarray, measured: np.ndarray, exact: np.ndarray, reasons: list[str | None]
) -> list[Row]:
    """The same rows with the refresh interval bracketed at every learning rate. reasons: [R] why there is none."""
    first = np.unique(drift.cells.refresh_interval)
    shape = (-1, len(first), len(rates))
    seen, true = measured.reshape(shape), exact.reshape(shape)
    none = f"none of the grid's refresh intervals {first[0]}..{first[-1]}"
    result = []
    for g, start in enumerate(range(0, len(drift.boundary), len(first))):
        momentum, weight = float(drift.cells.momentum[start]), float(drift.cells.kl_weight[start])
        reason, linear = reasons[start], drift.equilibria[weight].linear
        unknown, law = linear.unsupported_reason(), linear.rate("law", 1, momentum).value
        for j, rate in enumerate(rates):
            at = None if reason else _first(seen[g, :, j], first)
            should = None if np.isnan(true[g, 0, j]) else _first(true[g, :, j] > 0, first)
            error = None if at is None or not should else at / should - 1
            result.append(
                {
                    "drift": drift.name,
                    "learning_rate": rate,
                    "momentum": momentum,
                    "kl_weight": weight,
                    "measured_refresh_interval": Value.of(at, reason or none),
                    "exact": Value.of(should, unknown or none),
                    "leading_order": Value.of(law and law / rate, unknown or "the fixed point repels"),
                    "relative_error": Value.of(error, reason or unknown or none),
                }
            )
    return result


def _first(flags: np.ndarray, intervals: np.ndarray) -> float | None:
    return intervals[np.argmax(flags)].item() if np.any(flags) else None


def _shown(threshold: Row, onset: Row) -> Row:
    """A row of the table: where stability is lost, and where oscillation begins."""
    names = {"refresh_interval": "N", "learning_rate": "eta", "momentum": "mu", "kl_weight": "beta"}
    names |= {"leading_order": "law", "exact": "exact", "measured_learning_rate": "measured"}
    names |= {"measured_refresh_interval": "measured", "sampled_learning_rate": "sampled"}
    row = {"drift": threshold["drift"]}
    row |= {name: threshold[key] for key, name in names.items() if key in threshold}
    row |= {"rel. error": number(threshold["relative_error"].value, 2), "onset exact": onset["exact"]}
    return row | {"onset measured": next(value for key, value in onset.items() if key.startswith("measured_"))}


def _again(drifts: list[DriftResult], rates: np.ndarray) -> list[str]:
    """One line per row that is stable again beyond its threshold; what all rows have in common is left out."""
    result = []
    for drift in drifts:
        columns = drift.cells.momentum, drift.cells.kl_weight, drift.cells.refresh_interval
        for windows, *place in zip(drift.stable_again, *columns, strict=True):
            if windows:
                names = zip(("mu", "beta"), place, columns, strict=False)
                where = [drift.name] * (len(drifts) > 1)
                where += [f"{name} = {value:g}" for name, value, column in names if len(set(column)) > 1]
                ends = (f"{high:.3g}" if high < rates[-1] else "the end of the grid" for _, high in windows)
                spans = [f"from {low:.3g} to {end}" for (low, _), end in zip(windows, ends, strict=True)]
                spans = [", ".join(spans[:-1]), spans[-1]] if len(spans) > 1 else spans
                what = f"stable again {' and '.join(spans)} (learning rate), beyond the threshold"
                result.append(f"{', '.join([*where, f'N = {place[-1]:g}'])}: {what}")
    more = f"{len(result) - SHOWN_AGAIN} more rows are stable again beyond the threshold; summary.json has them"
    return result[:SHOWN_AGAIN] + [more] * (len(result) > SHOWN_AGAIN)


def _missing(thresholds: list[Row]) -> list[str]:
    """One line per reason why thresholds are missing."""
    reasons = [(key, value.reason) for row in thresholds for key, value in row.items() if isinstance(value, Value)]
    counts = {one: reasons.count(one) for one in reasons if one[1] and one[0] != "relative_error"}
    return [f"no {key.replace('_', ' ')} in {count} rows: {reason}" for (key, reason), count in counts.items()]


def _stiffness(drift: str, of: Equilibrium) -> Row:
    """One drift at one KL weight: eigenvalues by each route, reward per logit^2, and the fixed point."""
    row: Row = {"drift": drift, "kl_weight": of.kl_weight}
    if of.stiffness is None:
        nothing = Value.absent(of.point.reason or "no fixed point")
        row |= dict.fromkeys(("hessian", "closed_form", "relaxation", "jacobian"), nothing)
        return row | {"critical_kl_weight": of.linear.critical_kl_weight}
    report, linear = of.stiffness, of.linear
    hessian = Value.absent(report.hessian_reason or "none") if report.hessian is None else eigenvalues(report.hessian)
    row |= {
        "hessian": hessian,
        "closed_form": eigenvalues(linear.spectrum) if linear.closed_form else Value.absent(NO_FORMULA),
        "relaxation": eigenvalues(report.relaxation),
        "jacobian": eigenvalues(report.jacobian),
        "fresh": eigenvalues(report.fresh_spectrum),
        "stale": eigenvalues(report.stale_spectrum),
        "policy": of.point.policy[0],
        "policies": of.point.policy,
        "expected_reward": of.point.expected_reward,
    }
    return row if linear.note is None else row | {"note": linear.note}


def _what(plan: SweepPlan) -> str:
    convention, settings = plan.learner.optimizer.convention, plan.settings
    groups = [settings.bandit, settings.advantage, settings.estimator]
    groups += [settings.sampler, settings.correction] if resampled(plan.learner) else []
    what = " ".join(group["name"] for group in groups)
    moving = f"; learning rates are the largest of a schedule, outcomes: {plan.unjudged}" if plan.unjudged else ""
    return f"{what}, staleness {settings.staleness['name']}; momentum: {FORMS.get(convention, convention)}{moving}"


def _engine(plan: SweepPlan) -> Row:
    """Which path ran, why not the fast one, and where its random numbers come from."""
    chosen = route(plan.trained, "sampled", plan.settings.path)
    if chosen.name == "fast":
        return {"path": "fast", "rng": plan.settings.rng or DEFAULT_GENERATOR}
    return {"path": chosen.name, "rng": "jax.random", "path_reason": chosen.reason}


def _sampled(plan: SweepPlan, sampled: SampledResult, thresholds: list[Row]) -> Row:
    """Outcomes, boundary and share of lost runs per row of the sampled grid."""
    return {
        "outcomes": {o.label: int(n) for o, n in zip(Outcome, sampled.counts.sum(axis=(0, 1)), strict=True)},
        "note": f"{TEMPERATURE}{_how_often(thresholds)}",
        "rows": [
            {
                "momentum": momentum,
                "kl_weight": weight,
                "refresh_interval": interval,
                "boundary_learning_rate": sampled.boundary_at(q),
                "learning_rate": sampled.planned.learning_rate[q],
                "lost_share": sampled.lost[q],
            }
            for q, (momentum, interval, weight) in enumerate(zip(*plan.sampled_rows[1:], strict=True))
        ],
    }


def _how_often(thresholds: list[Row]) -> str:
    """In how many rows that is what was seen."""
    both = [row for row in thresholds if "sampled_learning_rate" in row]
    seen = [(row["sampled_learning_rate"].value, row["exact"].value) for row in both]
    below = [sampled < exact for sampled, exact in seen if sampled is not None and exact is not None]
    if not below:
        return "; here no row has both, so that nothing is compared."
    doubt = "" if all(below) else "; elsewhere the runs are too short or the grid too coarse to tell"
    return f" in {sum(below)} of {len(below)} rows{doubt}."
