"""From settings to the objects of the lab, with every check of every setting."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from bandit_lab import _checks, simulate
from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, KL_ESTIMATORS, STALENESS, Learner, Optimizer
from bandit_lab.simulate import DYNAMICS, PATHS
from bandit_lab.simulate.fast import GENERATORS
from bandit_lab.study.config import Settings
from bandit_lab.study.grid import IntervalRule, value_of

PRECISIONS = ("float32", "float64")


def build_learner(settings: Settings, largest_interval: float) -> Learner:
    """The learner that the settings describe. Raises ValueError for any static setting out of range."""
    bandit = _variant("bandit", settings.bandit, BANDITS)
    advantage = _variant("advantage", settings.advantage, ADVANTAGES)
    estimator = _variant("estimator", settings.estimator, ESTIMATORS)
    staleness = _variant("staleness", settings.staleness, STALENESS)
    options = settings.optimizer.get("options") or {}
    optimizer = Optimizer(settings.optimizer.get("name", ""), tuple(sorted(options.items())))
    return Learner(
        bandit,
        advantage,
        estimator,
        staleness,
        optimizer,
        _checks.integer("group_size", settings.group_size, advantage.smallest_group),
        _checks.integer("prompts", settings.prompts, 1),
        _checks.choice("kl_estimator", settings.kl_estimator, KL_ESTIMATORS),
        settings.batch_reuse,
        staleness.horizon_for(largest_interval),
    )


def interval_rule(settings: Settings) -> IntervalRule:
    """What the chosen staleness model allows as refresh interval. Raises ValueError for an unknown model."""
    model = STALENESS[_checks.choice("staleness", settings.staleness.get("name"), STALENESS)]()
    return IntervalRule(model.smallest_interval, model.whole_interval)


def check_scalars(settings: Settings) -> None:
    """Raise ValueError for any scalar setting out of range."""
    rule = interval_rule(settings)
    for name in ("learning_rate", "momentum", "refresh_interval", "kl_weight"):
        value_of(name, name, getattr(settings, name), rule)
    _checks.integer("seeds", settings.seeds, 1)
    _checks.integer("steps", settings.steps, 1)
    _checks.integer("seed", settings.seed, 0)
    _checks.require(settings.seed < 2**32, "seed", "an integer below 2^32", settings.seed)
    _checks.choice("dynamics", settings.dynamics, DYNAMICS)
    if settings.precision is not None:
        _checks.choice("precision", settings.precision, PRECISIONS)
    if settings.rng is not None:
        _checks.choice("rng", settings.rng, GENERATORS)
    _checks.choice("path", settings.path, PATHS)


def check_drift(learner: Learner, dynamics: str) -> str | None:
    """None if the drift of a dynamics can be computed, else the reason. Raises ValueError if the dynamics needs it."""
    try:
        simulate.check_drift(learner, dynamics)
    except ValueError as error:
        if dynamics == "finite_group":
            raise
        return str(error)
    return None


def _variant(group: str, chosen: Mapping[str, Any], known: Mapping[str, Callable[..., Any]]) -> Any:
    """The variant named in a group's mapping, built from the mapping's other keys."""
    options = {key: value for key, value in chosen.items() if key != "name"}
    build = known[_checks.choice(group, chosen.get("name"), known)]
    parameters = inspect.signature(build).parameters
    for key in options:
        _checks.choice(f"{group}.{key}", key, parameters)
    _check_options(group, options)
    return build(**options)


def _check_options(group: str, options: Mapping[str, Any]) -> None:
    """Options that the variants themselves take on trust."""
    for key, value in options.items() if group == "estimator" else ():
        _checks.positive(f"estimator.{key}", value)
    if group == "bandit" and "rewards" in options:
        _checks.numbers("bandit.rewards", options["rewards"])
    if group == "advantage":
        if "eps" in options:
            _checks.non_negative("advantage.eps", options["eps"])
        if "ddof" in options:
            _checks.require(options["ddof"] in (0, 1), "advantage.ddof", "0 or 1", options["ddof"])
