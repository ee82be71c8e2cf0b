"""What a recipe says of a run: G, updates per batch of rollouts, a bound on ages, and the traps of these settings."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_clinic.trainers.configuration import plain_scalar

OWN = "own loop"
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,([^}]*))?\}")


@dataclass(frozen=True)
class Key:
    """One quantity under a trainer's names, the current one first, and its default with the release that has it."""

    names: tuple[str, ...]
    default: Any = None
    release: str = ""


@dataclass(frozen=True)
class Trap:
    """One thing that misleads: `name` for programs, `text` for people, `source`."""

    name: str
    text: str
    source: str


@dataclass(frozen=True)
class Recipe:
    """The settings of a run; None where not stated.

    `interval`: updates per batch of rollouts. `age_bound`: largest age allowed [updates], under the name `age_key`.
    """

    trainer: str = OWN
    group_size: int | None = None
    interval: int | None = None
    age_bound: float | None = None
    age_key: str = ""
    traps: tuple[Trap, ...] = ()

    def without_baseline(self, size: int | None) -> str:
        """A sentence if the group size is 1; empty if there is a group or it is unknown."""
        if self.trainer == OWN:
            return "one answer per prompt: there is no group to compare it with" if size == 1 else ""
        return next((trap.text for trap in self.traps if trap.name == "no_baseline"), "")


@dataclass(frozen=True)
class Trainer:
    """A trainer as data: `marks` are keys that only it has, `block` the updates per batch, None where not known.

    `terms` are the quantities that `block` is worked out from, `step_unit` is what its logs count.
    """

    name: str
    release: str
    marks: tuple[str, ...]
    keys: Mapping[str, Key]
    block: Callable[["Settings"], float | None]
    terms: tuple[str, ...]
    traps: Callable[["Settings"], list[Trap]]
    step_unit: str = ""

    def marked(self, values: Mapping[str, Any]) -> int:
        """Number of its own keys in a configuration."""
        return sum(any(_ends(key, name) for key in values) for name in self.marks)


@dataclass(frozen=True)
class Settings:
    """A configuration under a trainer's names. `in_log`: it is what the run had, printed in its log."""

    trainer: Trainer
    values: Mapping[str, Any]
    in_log: bool = False
    further: Mapping[str, Key] = field(default_factory=dict)

    def given(self, quantity: str) -> tuple[str, Any] | None:
        """(key, value) of a quantity that is given at all; None for a default."""
        own, other = self.trainer.keys.get(quantity), self.further.get(quantity)
        for name in (*(own.names if own else ()), *(other.names if other else ())):
            for key in sorted((one for one in self.values if _ends(one, name)), key=lambda one: one.count(".")):
                value = _resolved(self.values[key], self.values)
                if value is not None:
                    return key, value
        return None

    def value(self, quantity: str) -> Any:
        """The given value, else the default, else None."""
        given, own = self.given(quantity), self.trainer.keys.get(quantity)
        return given[1] if given else own.default if own else None

    def number(self, quantity: str, least: float = 1.0) -> float | None:
        """Its value as a number. Raises ValueError (the trainer's own key, expected, got) for anything else."""
        given, value = self.given(quantity), self.value(quantity)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or value < least:
            raise ValueError(f"{given[0] if given else quantity}: expected a number >= {least:g}, got {value!r}")
        return float(value)

    def at_least_one(self, quantity: str) -> float:
        """A number that is 1 where nobody says it."""
        return self.number(quantity) or 1.0


def _ends(key: str, name: str) -> bool:
    return key == name or key.endswith(f".{name}")


def _resolved(value: Any, values: Mapping[str, Any], depth: int = 0) -> Any:
    """The value with a reference such as `${a.b}` put in; None where it cannot be."""
    if not isinstance(value, str) or "$" not in value:
        return value
    reference = _REFERENCE.fullmatch(value)
    if reference is None or depth > 8:
        return None
    if reference[1] in values:
        return _resolved(values[reference[1]], values, depth + 1)
    return None if reference[2] is None else plain_scalar(reference[2])
