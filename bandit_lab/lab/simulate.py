"""Many seeds of one setting as a labelled data set: what `bandit_lab.simulate(...)` returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import _checks, simulation
from bandit_lab.app.settings.config import RunSettings, Settings, SimulationSettings, value_of
from bandit_lab.grpo import Hyper, Learner, Schedule
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.fixed_point import LinearTheory, linearise
from bandit_lab.lab.sweep.sampled import OUTCOME, UNITS, classify, noise_scale
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import Runs
from bandit_lab.simulation.fast import DEFAULT_GENERATOR

if TYPE_CHECKING:
    import xarray


NOTHING_DRAWN = "exact dynamics: there is one run, no noise"


def simulated_grid(
    settings: SimulationSettings, axes: Mapping[str, Sequence[Any]], **also: bool | None
) -> "xarray.Dataset":
    """The runs at every combination of these values, along one dimension per setting. As `simulated`.

    Each cell has the numbers of a call of its own.
    """
    import xarray

    if not axes:
        return _simulated(settings, **also)
    (name, values), *rest = axes.items()
    _checks.require(len(values) > 0, name, "at least one value", list(values))
    checked: list[Any] = [value_of(name, name, value, build.interval_rule(settings)) for value in values]
    parts = [simulated_grid(replace(settings, **{name: value}), dict(rest), **also) for value in checked]
    units = {entry.name: entry.metadata["unit"] or "1" for entry in fields(settings)}
    along = xarray.DataArray(checked, dims=name, name=name, attrs={"units": units[name]})
    return xarray.concat(
        parts, along, data_vars="all", coords="minimal", compat="override", join="override",
        combine_attrs="drop_conflicts",
    )  # fmt: skip


def _simulated(settings: SimulationSettings, curves: bool | None = False) -> "xarray.Dataset":
    """Run the setting; with `curves` the reward of every seed is kept. Raises ValueError for anything out of range."""
    build.check_runs(settings)
    schedules = build.scheduled(settings)
    rule = build.interval_rule(settings)
    interval = value_of("refresh_interval", "refresh_interval", settings.refresh_interval, rule)
    learner = build.build_learner(settings, float(interval))
    sampled = settings.dynamics == "sampled"
    if not sampled and (reason := build.check_drift(learner, settings.dynamics)):
        raise ValueError(reason)
    precision = build.precision_of(settings, learner)
    if schedules:
        linear, why = None, build.ON_A_SCHEDULE
    else:
        linear, why = _fixed_point(settings, learner) if sampled else (None, NOTHING_DRAWN)
    largest, factors = build.largest_and_factors(schedules)
    most = replace(settings, **largest)
    cell = Hyper(most.learning_rate, most.momentum, interval, most.kl_weight)
    if factors:
        learner = replace(learner, schedule=Schedule(**factors))
    cells = Hyper(*(np.array([value]) for value in cell))
    how: dict[str, Any] = {
        "steps": settings.steps,
        "seeds": settings.seeds if sampled else 1,
        "seed": settings.seed,
        "dtype": np.dtype(precision).type,
        "path": settings.path,
        "rng": settings.rng or DEFAULT_GENERATOR,
    }
    reference = None if linear is None else np.array([linear.expected_reward])
    runs = simulation.run(learner, settings.dynamics, cells, reference=reference, policies=True, **how)
    codes = None
    if linear is not None:
        codes, why = _outcomes(settings, learner, linear, cell, runs)
    about = {"path": runs.route.name, "precision": precision, "dynamics": settings.dynamics}
    data = _dataset(
        runs, codes, dict(_flat(asdict(settings))) | about | ({} if codes is not None else {"no_outcome": why})
    )
    if curves:
        every = simulation.trajectories(learner, settings.dynamics, cells, **how)[0]
        data["reward"] = (("seed", "step"), every, {"units": "reward", "long_name": "expected reward"})
    return data


def _fixed_point(settings: Settings, learner: Learner) -> tuple[LinearTheory | None, str]:
    """The fixed point of the mean update at this group size, or None and why."""
    try:
        simulation.check_drift(learner, "finite_group")
    except ValueError as error:
        return None, str(error)
    linear = linearise(learner, "finite_group", settings.kl_weight)
    return (None, linear.reason or "no fixed point") if linear.policy is None else (linear, "")


def _outcomes(
    settings: Settings, learner: Learner, linear: LinearTheory, cell: Hyper, runs: Runs
) -> tuple[np.ndarray | None, str]:
    """Outcome codes [S] by the rules of `sweep`, or None and why: without a noise scale no run can be judged."""
    rate, momentum, interval, _ = cell
    assert linear.policy is not None
    scale, reason = noise_scale(learner, settings, linear, (momentum, interval), np.array([rate]))
    if reason is not None:
        return None, reason
    best = float(np.max(learner.bandit.true_means))
    reward, largest = np.array([linear.expected_reward]), np.array([float(np.max(linear.policy))])
    return classify(runs.summary, reward, largest, scale, best)[0], ""


def _dataset(runs: Runs, codes: np.ndarray | None, about: Mapping[str, Any]) -> "xarray.Dataset":
    import xarray

    policies = runs.policies
    assert policies is not None
    _, seeds, contexts, arms = policies.shape
    axes = ("seed", "context", "arm") if contexts > 1 else ("seed", "arm")
    mean = {"units": "reward", "long_name": "expected reward, mean over seeds"}
    variance = {"units": "reward^2", "long_name": "its variance over seeds"}
    variables: dict[str, Any] = {
        "reward_mean": ("step", runs.reward_mean[0], mean),
        "reward_variance": ("step", runs.reward_variance[0], variance),
        "final_policy": (axes, policies[0] if contexts > 1 else policies[0, :, 0], {"units": "1"}),
    }
    for name, units in UNITS.items():
        variables[name] = ("seed", getattr(runs.summary, name)[0], {"units": units})
    if codes is not None:
        meaning = "; ".join(f"{o.label}: {o.text}" for o in Outcome)
        variables["outcome"] = ("seed", codes, OUTCOME | {"meaning": meaning})
    coords: dict[str, Any] = {
        "step": ("step", np.arange(len(runs.reward_mean[0])), {"units": "steps"}),
        "seed": ("seed", np.arange(seeds), {"units": "1"}),
        "arm": ("arm", np.arange(arms), {"units": "1"}),
    } | ({"context": ("context", np.arange(contexts), {"units": "1"})} if contexts > 1 else {})
    return xarray.Dataset(variables, coords, {"title": "bandit_lab simulate", **about})


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every setting that has one, as attributes of a file can hold it; not those of a folder."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None and key not in RunSettings.__dataclass_fields__:
            yield f"{prefix}{key}", int(value) if isinstance(value, bool) else value
