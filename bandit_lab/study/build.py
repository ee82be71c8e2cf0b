"""From settings to the objects of the lab, with every check of every setting."""

from collections.abc import Mapping
from typing import Any, TypeVar

from bandit_lab import _checks, simulate
from bandit_lab._registry import Registry
from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, KL_ESTIMATORS, STALENESS, Learner, Optimizer
from bandit_lab.simulate import DYNAMICS, PATHS
from bandit_lab.simulate.fast import GENERATORS
from bandit_lab.study.settings.config import Settings
from bandit_lab.study.settings.grid import IntervalRule, value_of

T = TypeVar("T")
PRECISIONS = ("float32", "float64")


def build_learner(settings: Settings, largest_interval: float) -> Learner:
    """The learner that the settings describe. Raises ValueError for any static setting out of range."""
    bandit = _variant(BANDITS, settings.bandit)
    advantage = _variant(ADVANTAGES, settings.advantage)
    estimator = _variant(ESTIMATORS, settings.estimator)
    staleness = _variant(STALENESS, settings.staleness)
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
        _variant(KL_ESTIMATORS, settings.kl_estimator),
        settings.batch_reuse,
        staleness.horizon_for(largest_interval),
        _checks.non_negative("entropy_weight", settings.entropy_weight),
    )


def interval_rule(settings: Settings) -> IntervalRule:
    """What the chosen staleness model allows as refresh interval. Raises ValueError for an unknown model."""
    model = STALENESS[settings.staleness.get("name", "")]()
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
    alone = settings.path == "reference" and settings.rng is not None
    _checks.require(not alone, "rng", "null with path=reference (it draws with JAX's own keys)", settings.rng)


def check_drift(learner: Learner, dynamics: str) -> str | None:
    """None if the drift of a dynamics can be computed, else the reason. Raises ValueError if the dynamics needs it."""
    try:
        simulate.check_drift(learner, dynamics)
    except ValueError as error:
        if dynamics == "finite_group":
            raise
        return str(error)
    return None


def _variant(registry: Registry[T], chosen: Mapping[str, Any] | str) -> T:
    """The variant named in a group's mapping, built from the mapping's other keys; a name alone has no options."""
    if isinstance(chosen, str):
        return registry.build(chosen, {})
    return registry.build(chosen.get("name", ""), {key: value for key, value in chosen.items() if key != "name"})
