"""A sweep's results as one labelled data set: named dimensions and coordinates, units as attributes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab._types import Outcome
from bandit_lab.app.folder.results import ArrayType, Stream
from bandit_lab.app.settings.names import FORMS
from bandit_lab.lab.sweep.compute import EXAMPLES, Computed, DriftResult
from bandit_lab.lab.sweep.jobs import FIELDS, predict_rows, rows, values
from bandit_lab.lab.sweep.plan import SweepPlan, drawn_momenta
from bandit_lab.lab.sweep.sampled import NOT_RUN, SampledResult

if TYPE_CHECKING:
    import xarray

ETA = "logits per unit gradient"
ROW = ("momentum", "kl_weight", "refresh_interval")
COARSE = ("sampled_momentum", "kl_weight", "sampled_refresh_interval")
CURVE = 24
"""Refresh intervals of a drawn line, beside those of the grid."""
LOST = "collapsed onto one arm, diverged, or passed the fixed point and never settled"
"""When a sampled run counts as lost, for pictures. The limits are `measure.outcome`'s."""
UNITS = dict.fromkeys(("tail_mean", "tail_std", "overshoot"), "reward")
UNITS |= {"final_max_probability": "1", "tail_silent": "1"}
OUTCOME: dict[str, Any] = {
    "flag_values": [int(o) for o in Outcome],
    "flag_meanings": " ".join(o.label for o in Outcome),
    "units": "1",
}


def dataset(plan: SweepPlan, done: Computed, examples: dict[str, Any]) -> "xarray.Dataset":
    """Everything that was computed and can be held in memory; `streams` has the rest of `results.zarr`."""
    import xarray

    rates, drifts, sampled = done.rates, done.drifts, done.sampled
    coords: dict[str, Any] = {
        "momentum": ("momentum", plan.momentum, {"units": "1", "long_name": "momentum mu"}),
        "kl_weight": ("kl_weight", plan.kl_weight, {"units": "reward per nat", "long_name": "KL weight beta"}),
        "refresh_interval": ("refresh_interval", plan.refresh_interval, {"units": "steps"}),
        "learning_rate": ("learning_rate", rates, {"units": ETA, "long_name": "learning rate eta"}),
    }
    variables = _deterministic(drifts[0], "", ROW, _shape(plan), len(rates))
    momenta, intervals = drawn_momenta(plan.momentum), _drawn_intervals(plan)
    if len(intervals) > len(plan.refresh_interval):
        coords["drawn_momentum"] = ("drawn_momentum", momenta, {"units": "1"})
        coords["drawn_refresh_interval"] = ("drawn_refresh_interval", intervals, {"units": "steps"})
        variables |= _drawn(drifts[0], momenta, intervals)
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
        variables |= _sampled(plan, sampled)
    for drift in drifts[1:]:
        variables |= _deterministic(drift, "finite_group_", COARSE, _coarse_shape(plan), len(rates))
    for name, factors in plan.curves.items():
        coords["update"] = ("update", np.arange(len(factors)), {"units": "updates done"})
        variables[f"{name}_factor"] = ("update", factors, {"units": "1", "long_name": f"{name} / its largest value"})
    if examples:
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


def _shape(plan: SweepPlan) -> tuple[int, int, int]:
    return len(plan.momentum), len(plan.kl_weight), len(plan.refresh_interval)


def _coarse_shape(plan: SweepPlan) -> tuple[int, int, int]:
    return len(plan.sampled_momentum), len(plan.kl_weight), len(plan.sampled_interval)


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
    return result


def _drawn_intervals(plan: SweepPlan) -> np.ndarray:
    """Refresh intervals of the grid, and of the whole numbers between as many as a curve needs."""
    grid = plan.refresh_interval
    if np.any(grid != np.round(grid)):
        return grid
    between = np.round(np.geomspace(max(grid[0], 1), max(grid[-1], 1), CURVE)).astype(grid.dtype)
    return np.unique(np.concatenate([grid, between[between <= grid[-1]]]))


def _drawn(drift: DriftResult, momenta: np.ndarray, intervals: np.ndarray) -> dict[str, Any]:
    """Predicted lines of the phase diagrams, at the first KL weight: they bend between intervals of a sparse list."""
    cells = rows(momenta, np.array([drift.equilibria[0].kl_weight]), intervals)
    found = predict_rows(drift.equilibria[:1], cells)
    lines = {"threshold_law": found.law, "threshold_exact": found.exact, "onset_exact": found.onset}
    dims, shape = ("drawn_momentum", "drawn_refresh_interval"), (len(momenta), len(intervals))
    about = {"units": ETA, "drift": drift.name}
    return {f"drawn_{name}": (dims, values(line).reshape(shape), about) for name, line in lines.items()}


def _sampled(plan: SweepPlan, sampled: SampledResult) -> dict[str, Any]:
    """What is small of the sampled runs."""
    shape = (*_coarse_shape(plan), len(plan.multiples))
    cell = (*COARSE, "multiple")
    result: dict[str, Any] = {
        "sampled_boundary": (COARSE, sampled.boundary.reshape(shape[:-1]), {"units": ETA, "lost": LOST}),
        "sampled_learning_rate": (cell, sampled.planned.learning_rate.reshape(shape), {"units": ETA}),
        "lost_share": (cell, sampled.lost.reshape(shape), {"units": "1"}),
        "noise_scale": (cell, sampled.planned.noise_scale.reshape(shape), {"units": "reward"}),
        "sampled_steps": (COARSE, sampled.planned.steps.reshape(shape[:-1]), {"units": "steps"}),
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
    lead = (*_coarse_shape(plan), len(plan.multiples))

    def curves(start: int, stop: int, first: int, last: int) -> dict[str, np.ndarray]:
        mean, variance = runs.curves(start, stop)
        return {"reward_mean": mean[:, first:last], "reward_variance": variance[:, first:last]}

    def single(start: int, stop: int, first: int, last: int) -> dict[str, np.ndarray]:
        part = runs.runs(start, stop, first, last)
        return {"sampled_outcome": part.pop("outcome"), **part}

    units = {"reward_mean": "reward", "reward_variance": "reward^2"}
    about = {name: ArrayType(np.dtype(float), {"units": unit}) for name, unit in units.items()}
    result = [Stream((*cell, "step"), (*lead, runs.times), about, curves)]
    if runs.keep:
        columns = {"sampled_outcome": ArrayType(np.dtype(np.int8), OUTCOME | {"not_run": NOT_RUN})}
        columns |= {name: ArrayType(np.dtype(np.float32), {"units": UNITS[name]}) for name in FIELDS}
        result.append(Stream((*cell, "seed"), (*lead, runs.seeds), columns, single))
    return result
