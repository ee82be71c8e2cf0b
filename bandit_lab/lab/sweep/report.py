"""The results of a sweep: one labelled data set, with named dimensions and units; `summary.json`; on the terminal a
verdict and one table."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import measure, theory
from bandit_lab.app.folder.results import Stream
from bandit_lab.app.result import Figure, Result, Table, Value, eigenvalues, number
from bandit_lab.app.settings.names import FORMS
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper, resampled
from bandit_lab.lab.sweep.jobs import NO_RINGING, Computed, DriftResult, Equilibrium, values
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.lab.sweep.sampled import FIELDS, NOT_RUN, OUTCOME, UNITS, SampledResult
from bandit_lab.loop import RateCrossing, Reason
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import route, trajectories
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
ETA = "logits per unit gradient"
ROW = ("momentum", "kl_weight", "refresh_interval")
COARSE = ("sampled_momentum", "kl_weight", "sampled_refresh_interval")
LOST = "collapsed onto one arm, diverged, or passed the fixed point and never settled"
"""When a sampled run counts as lost, for pictures. The limits are `measure.outcome`'s."""
EXAMPLES = ("below the onset", "above the onset", "below the threshold", "above the threshold")
DISPLACEMENT = 0.2  # logits, along the stiffest mode
PREFERRED_INTERVAL = 8
LONGEST = 20_000


def dataset(plan: SweepPlan, done: Computed) -> "xarray.Dataset":
    """Everything that was computed and can be held in memory; `streams` has the rest of `results.zarr`."""
    import xarray

    rates, drifts, sampled = done.rates, done.drifts, done.sampled
    coords: dict[str, Any] = {
        "momentum": ("momentum", plan.momentum, {"units": "1", "long_name": "momentum mu"}),
        "kl_weight": ("kl_weight", plan.kl_weight, {"units": "reward per nat", "long_name": "KL weight beta"}),
        "refresh_interval": ("refresh_interval", plan.refresh_interval, {"units": "steps"}),
        "learning_rate": ("learning_rate", rates, {"units": ETA, "long_name": "learning rate eta"}),
    }
    variables = _deterministic(drifts[0], "", ROW, plan.shape, len(rates))
    momenta, intervals = np.unique(plan.drawn_rows.momentum), np.unique(plan.drawn_rows.refresh_interval)
    if len(intervals):
        coords["drawn_momentum"] = ("drawn_momentum", momenta, {"units": "1"})
        coords["drawn_refresh_interval"] = ("drawn_refresh_interval", intervals, {"units": "steps"})
        lines = {"threshold_law": done.drawn.law, "threshold_exact": done.drawn.exact, "onset_exact": done.drawn.onset}
        drawn, shape = ("drawn_momentum", "drawn_refresh_interval"), (len(momenta), len(intervals))
        about = {"units": ETA, "drift": drifts[0].name}
        variables |= {f"drawn_{name}": (drawn, values(line).reshape(shape), about) for name, line in lines.items()}
    if sampled is not None:
        unit = "threshold of the row" if plan.peaks is None else "largest of the grid"
        coords |= {
            "sampled_momentum": ("sampled_momentum", plan.sampled_momentum, {"units": "1"}),
            "sampled_refresh_interval": ("sampled_refresh_interval", plan.sampled_interval, {"units": "steps"}),
            "multiple": ("multiple", plan.multiples, {"units": "1", "long_name": f"learning rate / {unit}"}),
            "step": ("step", np.arange(plan.longest + 1), {"units": "updates done"}),
            "outcome_label": ("outcome_label", [o.label for o in Outcome]),
        }
        if sampled.runs.keep:
            coords["seed"] = ("seed", np.arange(plan.settings.seeds), {"units": "1", "long_name": "replica"})
        variables |= _sampled_variables(plan, sampled)
    for drift in drifts[1:]:
        variables |= _deterministic(drift, "finite_group_", COARSE, plan.sampled_shape, len(rates))
    for name, factors in plan.curves.items():
        coords["update"] = ("update", np.arange(len(factors)), {"units": "updates done"})
        variables[f"{name}_factor"] = ("update", factors, {"units": "1", "long_name": f"{name} / its largest value"})
    if examples := _example_runs(plan, drifts[0]):
        steps = np.arange(examples["example_reward"][1].shape[1])
        coords["example"] = ("example", list(EXAMPLES), {"long_name": "which side of which boundary"})
        coords["example_step"] = ("example_step", steps, {"units": "updates done"})
        variables |= examples
    chosen, form = plan.settings, plan.learner.optimizer.convention
    groups = (chosen.bandit, chosen.advantage, chosen.estimator, chosen.staleness)
    attributes = {
        "title": "bandit_lab sweep",
        "setting": ", ".join(group["name"] for group in groups),
        "drift": drifts[0].name,
        "momentum_form": FORMS.get(form, form),
    }
    if plan.unjudged:
        attributes["no_outcome"] = plan.unjudged
    return xarray.Dataset(variables, coords, attributes)


def _deterministic(
    drift: DriftResult, prefix: str, row: tuple[str, ...], shape: tuple[int, ...], points: int
) -> dict[str, Any]:
    """Thresholds per row, and growth and outcome on the grid, of one drift."""
    of = {"drift": drift.name}
    lines = {
        "threshold_law": values(drift.predicted.law),
        "threshold_exact": values(drift.predicted.exact),
        "threshold_measured": drift.boundary,
        "onset_exact": values(drift.predicted.onset),
        "onset_measured": drift.onset,
    }
    result: dict[str, Any] = {
        prefix + name: (row, line.reshape(shape), {"units": ETA, **of}) for name, line in lines.items()
    }
    plane, size = (*row, "learning_rate"), (*shape, points)
    result[f"{prefix}growth_rate"] = (plane, drift.growth.reshape(size), {"units": "1/step", **of})
    result[f"{prefix}outcome"] = (plane, drift.outcome.reshape(size), {**OUTCOME, **of})
    if most := max(map(len, drift.stable_again)):
        windows = [[*some, *[[np.nan, np.nan]] * (most - len(some))] for some in drift.stable_again]
        about = {"units": ETA, "long_name": "from and to which it is stable again beyond the threshold", **of}
        dims = (*row, f"{prefix}window", "window_end")
        result[f"{prefix}stable_again"] = (dims, np.array(windows).reshape(*shape, most, 2), about)
    return result


def _sampled_variables(plan: SweepPlan, sampled: SampledResult) -> dict[str, Any]:
    """What is small of the sampled runs."""
    shape = (*plan.sampled_shape, len(plan.multiples))
    cell = (*COARSE, "multiple")
    result: dict[str, Any] = {
        "sampled_boundary": (COARSE, sampled.boundary.reshape(shape[:-1]), {"units": ETA, "lost": LOST}),
        "sampled_learning_rate": (cell, sampled.planned.learning_rate.reshape(shape), {"units": ETA}),
        "lost_share": (cell, sampled.lost.reshape(shape), {"units": "1"}),
        "noise_scale": (cell, sampled.planned.noise_scale.reshape(shape), {"units": "reward"}),
        "sampled_steps": (COARSE, plan.sampled_steps.reshape(shape[:-1]), {"units": "steps"}),
        "outcome_count": ((*cell, "outcome_label"), sampled.counts.reshape(*shape, -1), {"units": "runs"}),
    }
    for name, column in {} if sampled.runs.keep else sampled.runs.means().items():
        about = {"units": UNITS[name], "long_name": f"{name}, mean over the runs that stayed finite"}
        result[f"{name}_over_seeds"] = (cell, column.reshape(shape), about)
    return result


def streams(plan: SweepPlan, sampled: SampledResult | None) -> list[Stream]:
    """Arrays that are too large to be held: the mean curves, and the single runs where they are kept."""
    if sampled is None:
        return []
    runs, cell = sampled.runs, (*COARSE, "multiple")
    lead = (*plan.sampled_shape, len(plan.multiples))

    def curves(start: int, stop: int, first: int, last: int) -> dict[str, np.ndarray]:
        mean, variance = runs.curves(start, stop)
        return {"reward_mean": mean[:, first:last], "reward_variance": variance[:, first:last]}

    def single(start: int, stop: int, first: int, last: int) -> dict[str, np.ndarray]:
        part = runs.runs(start, stop, first, last)
        return {"sampled_outcome": part.pop("outcome"), **part}

    units = {"reward_mean": "reward", "reward_variance": "reward^2"}
    about = {name: (np.dtype(float), {"units": unit}) for name, unit in units.items()}
    result = [Stream((*cell, "step"), (*lead, runs.times), about, curves)]
    if runs.keep:
        columns: dict[str, Any] = {"sampled_outcome": (np.dtype(np.int8), OUTCOME | {"not_run": NOT_RUN})}
        columns |= {name: (np.dtype(np.float32), {"units": UNITS[name]}) for name in FIELDS}
        result.append(Stream((*cell, "seed"), (*lead, runs.seeds), columns, single))
    return result


def _example_runs(plan: SweepPlan, drift: DriftResult) -> dict[str, Any]:
    """Four runs of the mean update from rest, a small displacement from the fixed point, on both sides of both
    boundaries, as variables of a data set; none where a boundary is missing.

    Beside each run are the oscillator whose lag is the refresh interval (the published one), and the one whose lag is
    the mean age of the acting policy; `example_length` are the steps worth showing.
    """
    cells, at = drift.cells, _first_equilibrium(drift)
    momentum = float(plan.momentum[-1])
    near = np.argmin(np.abs(np.log((plan.refresh_interval + 0.1) / PREFERRED_INTERVAL)))
    interval = plan.refresh_interval[near].item()
    mine = (cells.momentum == momentum) & (cells.refresh_interval == interval) & (cells.kl_weight == at.kl_weight)
    row = int(np.flatnonzero(mine)[0])
    onset, threshold = float(drift.onset[row]), float(drift.boundary[row])
    if at.stiffness is None or not (np.isfinite(onset) and np.isfinite(threshold) and onset < threshold):
        return {}
    rates = np.array([0.5 * onset, np.sqrt(onset * threshold), 0.9 * threshold, 1.1 * threshold])
    lengths = _lengths(rates, momentum, interval, at.stiffness.largest)
    longest = int(lengths.max())
    hyper = Hyper(rates, *(np.full(4, value) for value in (momentum, interval, at.kl_weight)))
    start = _displaced(plan, drift)
    runs = trajectories(plan.learner, drift.dynamics, hyper, steps=longest, dtype=np.float64, initial=start)[:, 0]
    curves = [_oscillators(drift, runs[i, 0], float(rates[i]), momentum, interval, longest) for i in range(4)]
    law, mean_age = (np.array(column) for column in zip(*curves, strict=True))
    about = {"units": "reward", "drift": drift.name, "fixed_point": at.point.expected_reward, "momentum": momentum,
             "refresh_interval": interval}  # fmt: skip
    plane = ("example", "example_step")
    return {
        "example_learning_rate": ("example", rates, {"units": "logits per unit gradient"}),
        "example_length": ("example", lengths, {"units": "steps"}),
        "example_reward": (plane, runs, about),
        "example_oscillator_law": (plane, law, about),
        "example_oscillator_mean_age": (plane, mean_age, about),
    }


def _first_equilibrium(drift: DriftResult) -> Equilibrium:
    return next(iter(drift.equilibria.values()))


def _lengths(rates: np.ndarray, momentum: float, interval: float, stiffness: float) -> np.ndarray:
    """Steps to show: several relaxation times at small rates, several periods near the threshold."""
    memory = max(interval, 1) + 1 / (1 - momentum)
    relaxation = (1 - momentum) / (rates * stiffness)
    shown = np.array([5 * relaxation[0], 8 * memory + 4 * relaxation[1], 16 * memory, 16 * memory])
    return np.clip(np.ceil(shown), 10, LONGEST).astype(int)


def _displaced(plan: SweepPlan, drift: DriftResult) -> np.ndarray:
    """Parameters a little away from the fixed point, on the side of smaller reward."""
    equilibrium = _first_equilibrium(drift)
    assert equilibrium.stiffness is not None
    assert equilibrium.point.theta is not None
    direction, _ = measure.stiffest_mode(equilibrium.stiffness.relaxation_matrix, equilibrium.point.basis)
    step = DISPLACEMENT * direction / np.linalg.norm(direction)
    slope = (
        jax.grad(lambda theta: expected_reward(plan.learner.bandit, theta))(jnp.asarray(equilibrium.point.theta)) @ step
    )
    return equilibrium.point.theta - np.sign(slope) * step


def _oscillators(
    drift: DriftResult, start: float, rate: float, momentum: float, interval: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Expected reward [T + 1] by the oscillator with lag N and with the mean age, both from rest.

    NaN where the theory does not know the optimiser, or a staleness model's mean age.
    """
    linear, final = _first_equilibrium(drift).linear, _first_equilibrium(drift).point.expected_reward
    time = jnp.arange(steps + 1.0)
    result = []
    if linear.unsupported_reason():
        return np.full(steps + 1, np.nan), np.full(steps + 1, np.nan)
    loop = linear.loop(momentum, interval)
    heavier = 0.5 * loop.optimizer.inertia[0] / rate  # the symmetric mass
    for lag in (loop.lag, float(loop.rule.ages.mean())):
        mass, damping, stiffness = loop.oscillator(rate, lag)
        osc = theory.Oscillator(mass + heavier, damping, stiffness)
        with np.errstate(over="ignore", invalid="ignore"):
            result.append(np.asarray(theory.response(osc, time, start, final)))
    return result[0], result[1]


def result_of(plan: SweepPlan, done: Computed, data: "xarray.Dataset") -> Result:
    """Everything that a sweep found. data: of `dataset`, and of `streams` where it is in memory."""
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
        "outcomes": measure.count_outcomes(drifts[0].outcome),
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
