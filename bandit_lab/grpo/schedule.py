"""Schedules: a learning rate or a KL weight as a function of the step, by the name that optax gives it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from bandit_lab import _checks
from bandit_lab._checks import attempt
from bandit_lab._types import Array

_OF_THE_RUN = ("decay_steps", "transition_steps")
"""Options that are the length of the run where they are left out."""
_REFUSED = ("join_schedules", "sgdr_schedule", "inject_hyperparams", "inject_stateful_hyperparams")


def _values(values: Sequence[float]) -> optax.Schedule:
    """One number for every step; after the last of them it stays."""
    numbers = jnp.asarray(_checks.numbers("values", values))
    return lambda step: numbers[jnp.minimum(step, len(numbers) - 1)]


SCHEDULES: dict[str, Callable[..., optax.Schedule]] = {"values": _values} | {
    name.removesuffix("_schedule"): function
    for name, function in sorted(vars(optax.schedules).items())
    if inspect.isfunction(function) and name not in _REFUSED
}
"""Every schedule of `optax.schedules` that is made of numbers, by its name there less `_schedule`; and a list."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Schedule:
    """Factors of settings at every step, [T] each; None for a constant one. After T steps the last value stays.

    learning_rate, kl_weight: factors >= 0 of the settings of that name in `Hyper`, without a unit.
    """

    learning_rate: Any = None
    kl_weight: Any = None

    def at(self, settings: Any, step: Array) -> Any:
        """Settings, a named tuple that has both, as they are at that step."""
        factors = {name: getattr(self, name) for name in ("learning_rate", "kl_weight")}
        now = {name: lax.dynamic_index_in_dim(x, step, 0, False) for name, x in factors.items() if x is not None}
        return settings._replace(**{name: getattr(settings, name) * factor for name, factor in now.items()})


def schedule_values(key: str, chosen: Mapping[str, Any], steps: int) -> np.ndarray:
    """Values [steps], float64, of the schedule that `chosen` names under `schedule`, with optax's options beside it.

    `decay_steps` and `transition_steps` are `steps` where they are left out.

    Raises:
      ValueError: an unknown schedule or option, an option that is missing, a value below 0 or beyond what a step can
        take; a schedule that is 0 throughout. The message names `key`.
    """
    options = {str(name): value for name, value in chosen.items() if name != "schedule"}
    name = str(chosen.get("schedule")).removesuffix("_schedule")
    function = SCHEDULES[_checks.choice(f"{key}.schedule", name, SCHEDULES)]
    accepted = inspect.signature(function).parameters
    for option in options:
        _checks.choice(key, option, ("schedule", *accepted))
    for option, parameter in accepted.items():
        if option in _OF_THE_RUN:
            options.setdefault(option, steps)
        missing = parameter.default is parameter.empty and option not in options
        _checks.require(not missing, f"{key}.{option}", f"a value ({name} needs it)", None)
    if isinstance(scales := options.get("boundaries_and_scales"), Mapping):
        options["boundaries_and_scales"] = {int(step): scale for step, scale in scales.items()}
    values = attempt(key, f"options that {name} takes", lambda: _computed(function(**options), steps))
    good = np.isfinite(values) & (values >= 0) & (values <= _checks.LARGEST)
    if not np.all(good):
        step = int(np.flatnonzero(~good)[0])
        raise ValueError(
            f"{key}: expected numbers >= 0 and <= {_checks.LARGEST:g}, got {values[step]:g} at step {step}"
        )
    _checks.require(bool(values.max() > 0), key, "a schedule above 0 at some step", dict(chosen))
    return values


def _computed(schedule: optax.Schedule, steps: int) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(schedule)(np.arange(steps)), np.float64)
