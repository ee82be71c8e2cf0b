"""A sweep's results as one labelled data set: named dimensions and coordinates, units as attributes."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import measure, theory
from bandit_lab.app.folder.results import Stream
from bandit_lab.app.settings.names import FORMS
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper
from bandit_lab.lab.sweep.jobs import Computed, DriftResult, Equilibrium, values
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.lab.sweep.sampled import FIELDS, NOT_RUN, SampledResult
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import trajectories

if TYPE_CHECKING:
    import xarray

ETA = "logits per unit gradient"
ROW = ("momentum", "kl_weight", "refresh_interval")
COARSE = ("sampled_momentum", "kl_weight", "sampled_refresh_interval")
LOST = "collapsed onto one arm, diverged, or passed the fixed point and never settled"
"""When a sampled run counts as lost, for pictures. The limits are `measure.outcome`'s."""
UNITS = dict.fromkeys(("tail_mean", "tail_std", "overshoot"), "reward")
UNITS |= {"final_max_probability": "1", "tail_silent": "1"}
EXAMPLES = ("below the onset", "above the onset", "below the threshold", "above the threshold")
DISPLACEMENT = 0.2  # logits, along the stiffest mode
PREFERRED_INTERVAL = 8
LONGEST = 20_000
OUTCOME: dict[str, Any] = {
    "flag_values": [int(o) for o in Outcome],
    "flag_meanings": " ".join(o.label for o in Outcome),
    "units": "1",
}


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
        variables |= _sampled(plan, sampled)
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


def _sampled(plan: SweepPlan, sampled: SampledResult) -> dict[str, Any]:
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
    cells, at = drift.cells, _first(drift)
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


def _first(drift: DriftResult) -> Equilibrium:
    return next(iter(drift.equilibria.values()))


def _lengths(rates: np.ndarray, momentum: float, interval: float, stiffness: float) -> np.ndarray:
    """Steps to show: several relaxation times at small rates, several periods near the threshold."""
    memory = max(interval, 1) + 1 / (1 - momentum)
    relaxation = (1 - momentum) / (rates * stiffness)
    shown = np.array([5 * relaxation[0], 8 * memory + 4 * relaxation[1], 16 * memory, 16 * memory])
    return np.clip(np.ceil(shown), 10, LONGEST).astype(int)


def _displaced(plan: SweepPlan, drift: DriftResult) -> np.ndarray:
    """Parameters a little away from the fixed point, on the side of smaller reward."""
    equilibrium = _first(drift)
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
    linear, final = _first(drift).linear, _first(drift).point.expected_reward
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
