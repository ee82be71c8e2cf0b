"""A sweep's results as one labelled data set: named dimensions and coordinates, units as attributes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab._types import Outcome
from bandit_lab.study.examples import TITLES, Examples
from bandit_lab.study.report import FORMS
from bandit_lab.study.sweep_exact import DriftResult, values
from bandit_lab.study.sweep_plan import SweepPlan
from bandit_lab.study.sweep_sampled import SampledResult

if TYPE_CHECKING:
    import xarray

ETA = "logits per unit gradient"
ROW = ("momentum", "kl_weight", "refresh_interval")
COARSE = ("sampled_momentum", "kl_weight", "sampled_refresh_interval")
_OUTCOME = {
    "flag_values": [int(o) for o in Outcome],
    "flag_meanings": " ".join(o.label for o in Outcome),
    "units": "1",
}


def dataset(
    plan: SweepPlan,
    rates: np.ndarray,
    drifts: list[DriftResult],
    sampled: SampledResult | None,
    examples: Examples | None,
) -> "xarray.Dataset":
    """Everything that was computed, ready for `results.zarr`."""
    import xarray

    coords: dict[str, Any] = {
        "momentum": ("momentum", plan.momentum, {"units": "1", "long_name": "momentum mu"}),
        "kl_weight": ("kl_weight", plan.kl_weight, {"units": "reward per nat", "long_name": "KL weight beta"}),
        "refresh_interval": ("refresh_interval", plan.refresh_interval, {"units": "steps"}),
        "learning_rate": ("learning_rate", rates, {"units": ETA, "long_name": "learning rate eta"}),
    }
    variables = _deterministic(drifts[0], "", ROW, _shape(plan), len(rates))
    if sampled is not None:
        coords |= {
            "sampled_momentum": ("sampled_momentum", plan.sampled_momentum, {"units": "1"}),
            "sampled_refresh_interval": ("sampled_refresh_interval", plan.sampled_interval, {"units": "steps"}),
            "multiple": (
                "multiple",
                plan.multiples,
                {"units": "1", "long_name": "learning rate / threshold of the row"},
            ),
            "seed": ("seed", np.arange(plan.settings.seeds), {"units": "1", "long_name": "replica"}),
            "step": ("step", np.arange(plan.longest + 1), {"units": "updates done"}),
        }
        variables |= _sampled(plan, sampled)
    for drift in drifts[1:]:
        variables |= _deterministic(drift, "finite_group_", COARSE, _coarse_shape(plan), len(rates))
    if examples is not None:
        coords["example"] = ("example", list(TITLES), {"long_name": "which side of which boundary"})
        coords["example_step"] = ("example_step", np.arange(examples.reward.shape[1]), {"units": "updates done"})
        variables |= _examples(examples, drifts[0].name)
    chosen, form = plan.settings, plan.learner.optimizer.convention
    groups = (chosen.bandit, chosen.advantage, chosen.estimator, chosen.staleness)
    attributes = {
        "title": "bandit_lab sweep",
        "setting": ", ".join(group["name"] for group in groups),
        "drift": drifts[0].name,
        "momentum_form": FORMS.get(form, form),
    }
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
    result[f"{prefix}outcome"] = (plane, drift.outcome.reshape(size), {**_OUTCOME, **of})
    return result


def _examples(examples: Examples, drift: str) -> dict[str, Any]:
    """The example runs and the oscillator's curves."""
    plane = ("example", "example_step")
    about = {
        "units": "reward",
        "drift": drift,
        "fixed_point": examples.fixed_point_reward,
        "momentum": examples.momentum,
        "refresh_interval": examples.interval,
    }
    return {
        "example_learning_rate": ("example", examples.learning_rate, {"units": ETA}),
        "example_length": ("example", examples.length, {"units": "steps"}),
        "example_reward": (plane, examples.reward, about),
        "example_oscillator_law": (plane, examples.law, about),
        "example_oscillator_mean_age": (plane, examples.mean_age, about),
    }


def _sampled(plan: SweepPlan, sampled: SampledResult) -> dict[str, Any]:
    """Every judged run, and the mean curves."""
    shape = (*_coarse_shape(plan), len(plan.multiples))
    cell, seed = (*COARSE, "multiple"), (*COARSE, "multiple", "seed")
    result: dict[str, Any] = {
        "sampled_boundary": (COARSE, sampled.boundary.reshape(shape[:-1]), {"units": ETA}),
        "sampled_learning_rate": (cell, sampled.learning_rate.reshape(shape), {"units": ETA}),
        "lost_share": (cell, sampled.lost.reshape(shape), {"units": "1"}),
        "noise_scale": (cell, sampled.noise_scale.reshape(shape), {"units": "reward"}),
        "sampled_outcome": (seed, sampled.outcome.reshape(*shape, -1), _OUTCOME),
        "reward_mean": ((*cell, "step"), sampled.reward_mean.reshape(*shape, -1), {"units": "reward"}),
        "reward_variance": ((*cell, "step"), sampled.reward_variance.reshape(*shape, -1), {"units": "reward^2"}),
        "sampled_steps": (COARSE, sampled.steps.reshape(shape[:-1]), {"units": "steps"}),
    }
    for name in ("tail_mean", "tail_std", "overshoot"):
        column = np.asarray(getattr(sampled.summary, name), np.float32).reshape(*shape, -1)
        result[name] = (seed, column, {"units": "reward"})
    for name in ("final_max_probability", "tail_silent"):
        column = np.asarray(getattr(sampled.summary, name), np.float32).reshape(*shape, -1)
        result[name] = (seed, column, {"units": "1"})
    return result
