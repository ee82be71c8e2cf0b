"""From settings to the objects of the lab, with every check of every setting."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from bandit_lab import _checks, simulation
from bandit_lab._registry import Registry
from bandit_lab.app.settings.config import SCHEDULED, TRACED, IntervalRule, Settings, SimulationSettings, value_of
from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import (
    ADVANTAGES,
    CORRECTIONS,
    ESTIMATORS,
    KL_ESTIMATORS,
    SAMPLERS,
    STALENESS,
    Learner,
    Optimizer,
    resampled,
    schedule_values,
    shift_of,
)
from bandit_lab.simulation import DYNAMICS, PATHS
from bandit_lab.simulation.fast import GENERATORS

EXAMPLE = "{schedule: linear, init_value: 0.1, end_value: 1}"
PRECISIONS = ("float32", "float64")


_RULES: dict[str, Registry[Any]] = {
    "bandit": BANDITS,
    "advantage": ADVANTAGES,
    "estimator": ESTIMATORS,
    "staleness": STALENESS,
    "kl_estimator": KL_ESTIMATORS,
    "sampler": SAMPLERS,
    "correction": CORRECTIONS,
}


def variant(kind: str, chosen: Mapping[str, Any] | str) -> Any:
    """The variant that a group's mapping names, built from its other keys; a name alone has no options.

    Raises ValueError for an unknown name or option, and for an option out of range.
    """
    name, options = (chosen, {}) if isinstance(chosen, str) else (chosen.get("name", ""), dict(chosen))
    options.pop("name", None)
    options = {key: float(one) if type(one) is int and abs(one) > 2**53 else one for key, one in options.items()}
    if kind == "optimizer":
        further = options.get("options") or {}
        _checks.require(isinstance(further, Mapping), "optimizer.options", "a dictionary of options", further)
        return Optimizer(name, tuple(sorted(further.items())))
    return _RULES[kind].build(name, options)


def variants(settings: Any) -> dict[str, Any]:
    """The variants that settings with all groups choose, by a learner's fields. Raises as `variant`."""
    return {kind: variant(kind, getattr(settings, kind)) for kind in (*_RULES, "optimizer")}


def build_learner(settings: Settings, largest_interval: float) -> Learner:
    """The learner that the settings describe. Raises ValueError for any static setting out of range."""
    rules = variants(settings)
    learner = Learner(
        **rules,
        group_size=_checks.integer("group_size", settings.group_size, rules["advantage"].smallest_group),
        prompts=_checks.integer("prompts", settings.prompts, 1),
        batch_reuse=settings.batch_reuse,
        horizon=rules["staleness"].horizon_for(largest_interval),
        entropy_weight=_checks.non_negative("entropy_weight", settings.entropy_weight),
    )
    if resampled(learner):  # a sampler names what it cannot draw from
        jax.eval_shape(lambda theta: shift_of(learner, theta, theta), learner.bandit.initial_parameters)
    return learner


def interval_rule(settings: Settings) -> IntervalRule:
    """Limits of the refresh interval of the chosen staleness model. Raises ValueError for an unknown model."""
    model = STALENESS[settings.staleness.get("name", "")]()
    return IntervalRule(model.smallest_interval, model.whole_interval)


def check_scalars(settings: Settings) -> None:
    """Raise ValueError for any scalar setting out of range, schedules aside (`scheduled`)."""
    rule = interval_rule(settings)
    for name in TRACED:
        value = getattr(settings, name)
        if name in SCHEDULED and isinstance(value, Mapping):
            continue
        if name in SCHEDULED and not isinstance(value, int | float):
            got = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
            raise ValueError(f"{name}: expected a number, or a schedule such as {EXAMPLE}, got {got}")
        value_of(name, name, value, rule)
    _checks.integer("steps", settings.steps, 1)
    _checks.choice("dynamics", settings.dynamics, DYNAMICS)


def check_runs(settings: SimulationSettings) -> None:
    """`check_scalars`, and the same for what only runs have."""
    check_scalars(settings)
    _checks.integer("seeds", settings.seeds, 1)
    _checks.integer("seed", settings.seed, 0)
    _checks.require(settings.seed < 2**32, "seed", "an integer below 2^32", settings.seed)
    if settings.precision is not None:
        _checks.choice("precision", settings.precision, PRECISIONS)
    if settings.rng is not None:
        _checks.choice("rng", settings.rng, GENERATORS)
    _checks.choice("path", settings.path, PATHS)
    alone = settings.path == "reference" and settings.rng is not None
    _checks.require(not alone, "rng", "null with path=reference (it draws with JAX's own keys)", settings.rng)


def precision_of(settings: SimulationSettings, learner: Learner) -> str:
    """`precision`, or its default: float32 for sampled runs of an optimiser that does not divide, else float64."""
    single = settings.dynamics == "sampled" and not learner.optimizer.divides
    return settings.precision or ("float32" if single else "float64")


def scheduled(settings: Settings) -> dict[str, np.ndarray]:
    """Values [steps] of every setting that is a schedule, by its name. Raises ValueError for what is none."""
    chosen = ((name, getattr(settings, name)) for name in SCHEDULED)
    return {name: schedule_values(name, one, settings.steps) for name, one in chosen if isinstance(one, Mapping)}


def largest_and_factors(schedules: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """By setting on a schedule: its largest value, and the factor [steps] of every step, at most 1."""
    largest = {name: float(values.max()) for name, values in schedules.items()}
    return largest, {name: values / largest[name] for name, values in schedules.items()}


ON_A_SCHEDULE = "learning_rate on a schedule: there is no one setting to judge a run by"
"""Why no run can be judged whose learning rate changes."""


def check_drift(learner: Learner, dynamics: str) -> str | None:
    """None if the drift of a dynamics can be computed, else the reason. Raises ValueError if the dynamics needs it."""
    try:
        simulation.check_drift(learner, dynamics)
    except ValueError as error:
        if dynamics != "sampled":
            raise
        return str(error)
    return None
