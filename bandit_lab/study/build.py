"""From settings to the objects of the lab, with every check of every setting."""

from collections.abc import Mapping
from typing import Any

from bandit_lab import _checks, simulate
from bandit_lab._registry import Registry
from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, KL_ESTIMATORS, STALENESS, Learner, Optimizer
from bandit_lab.simulate import DYNAMICS, PATHS
from bandit_lab.simulate.fast import GENERATORS
from bandit_lab.study.settings.config import Settings
from bandit_lab.study.settings.grid import IntervalRule, value_of

PRECISIONS = ("float32", "float64")


_RULES: dict[str, Registry[Any]] = {
    "bandit": BANDITS,
    "advantage": ADVANTAGES,
    "estimator": ESTIMATORS,
    "staleness": STALENESS,
    "kl_estimator": KL_ESTIMATORS,
}


def variant(kind: str, chosen: Mapping[str, Any] | str) -> Any:
    """The variant that a group's mapping names, built from its other keys; a name alone has no options.

    Raises ValueError for an unknown name or option, and for an option out of range.
    """
    name, options = (chosen, {}) if isinstance(chosen, str) else (chosen.get("name", ""), dict(chosen))
    options.pop("name", None)
    if kind == "optimizer":
        return Optimizer(name, tuple(sorted((options.get("options") or {}).items())))
    return _RULES[kind].build(name, options)


def variants(settings: Any) -> dict[str, Any]:
    """What a learner is made of, by its field: the variants that settings with all groups choose. As `variant`."""
    return {kind: variant(kind, getattr(settings, kind)) for kind in (*_RULES, "optimizer")}


def build_learner(settings: Settings, largest_interval: float) -> Learner:
    """The learner that the settings describe. Raises ValueError for any static setting out of range."""
    rules = variants(settings)
    return Learner(
        **rules,
        group_size=_checks.integer("group_size", settings.group_size, rules["advantage"].smallest_group),
        prompts=_checks.integer("prompts", settings.prompts, 1),
        batch_reuse=settings.batch_reuse,
        horizon=rules["staleness"].horizon_for(largest_interval),
        entropy_weight=_checks.non_negative("entropy_weight", settings.entropy_weight),
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
