"""Does a trainer say what its keys are, are its defaults possible, and can its staleness be stated?"""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bandit_lab import _checks
from bandit_lab.lab.check.result import Failed, NotApplicable, check
from bandit_lab.lab.check.subject import Subject
from bandit_lab.runs.trainers import REGISTRY, TRAINERS, Age, Configuration, Fact, Lookup, Trainer, understand
from bandit_lab.runs.trainers.base import QUANTITIES, plain_scalar, version
from bandit_lab.runs.trainers.registry import plain_name
from bandit_lab.theory import MODELS


def _number(least: float, most: float = math.inf) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


_below_one = _number(0, 1 - 1e-12)
_NUMBER, _SHARE = "a number >= 0", "a number in [0, 1)"
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "group_size": ("a number >= 1", _number(1)),
    **dict.fromkeys(("learning_rate", "weight_decay", "kl_weight", "clip_low", "clip_high"), (_NUMBER, _number(0))),
    **dict.fromkeys(("beta1", "beta2"), (_SHARE, _below_one)),
    "betas": (
        "two numbers in [0, 1)",
        lambda value: isinstance(value, list | tuple) and len(value) == 2 and all(map(_below_one, value)),
    ),
    "optimizer": ("a text", lambda value: isinstance(value, str)),
}
_PLAIN: tuple[str, Callable[[Any], bool]] = ("a number, a text, true, false or a list of them", lambda value: True)
_STAND_IN: dict[str, Any] = {"optimizer": "adamw", "betas": [0.9, 0.999], "beta1": 0.9, "beta2": 0.999}


@dataclass
class _Asked(Lookup):
    """Settings that note which of them a trainer's `read` wants to know."""

    asked: set[str] = field(default_factory=set)

    def fact(self, quantity: str) -> Fact | None:
        self.asked.add(quantity)
        return super().fact(quantity)

    def has(self, quantity: str) -> bool:
        self.asked.add(quantity)
        return super().has(quantity)


def _values(trainer: Trainer) -> dict[str, Any]:
    """Every key with its default, or with a number that is possible."""
    values: dict[str, Any] = {}
    for key in trainer.keys:
        name, _, place = key.names[0].partition("[")
        value = key.defaults[0].value if key.defaults else _STAND_IN.get(key.quantity, 1)
        if value is not None:
            values.setdefault(name, [value, value] if place else value)
    return values


@check("keys are known quantities", "trainer")
def keys(subject: Subject) -> str:
    """Each is one that every command knows, one of a trainer of ours, or one that its `read` asks for."""
    trainer: Trainer = subject.variant
    names = [key.quantity for key in trainer.keys]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Failed(f"{twice}: expected one key for a quantity, got {names.count(twice)}")
    bare = next((key.quantity for key in trainer.keys if not key.names), None)
    if bare:
        raise Failed(f"{bare}: expected at least one name, got none")
    known = {*QUANTITIES, *(key.quantity for one in _ours() for key in one.keys)}
    unknown = [name for name in names if name not in known | _asked(trainer)]
    if unknown:
        raise Failed(f"{unknown[0]}: expected a quantity that commands know or that read asks for, got neither")
    return f"{len(names)} keys"


def _ours() -> list[Trainer]:
    return [one for name, one in TRAINERS.items() if not REGISTRY.is_outside(name)]


def _asked(trainer: Trainer) -> set[str]:
    """What `read` wants to know of no settings, of all of them, and with every switch the other way."""
    asked: set[str] = set()
    every = _values(trainer)
    switched = {name: not value if isinstance(value, bool) else value for name, value in every.items()}
    for values in ({}, every, switched):
        look = _Asked(trainer, values)
        with contextlib.suppress(ValueError):  # what it cannot do without
            trainer.read(look)
        asked |= look.asked
    return asked


@check("defaults are possible", "trainer")
def defaults(subject: Subject) -> str:
    """Plain values of the kind that the quantity has, each with the release in which it was read."""
    count = 0
    for key in subject.variant.keys:
        for default in key.defaults:
            count += 1
            value = default.value
            plain = all(plain_scalar(one) == one for one in (value if isinstance(value, list | tuple) else [value]))
            kind, fits = _KINDS.get(key.quantity, _PLAIN)
            if not plain or (value is not None and not fits(value)):
                raise Failed(f"{key.quantity}: expected {kind}, got {value!r}")
            if not default.release:
                raise Failed(f"{key.quantity}: expected the release in which its default was read, got none")
            for text in filter(None, (default.since, default.until)):
                if not version(text):
                    raise Failed(f"{key.quantity}: expected a release such as 0.17, got {text!r}")
    if not count:
        raise NotApplicable("it has no defaults")
    return f"{count} defaults"


@check("the staleness can be stated", "trainer")
def stated(subject: Subject) -> str:
    """With every key given, and with none: there `read` may ask for a key in a ValueError."""
    trainer: Trainer = subject.variant
    loop = _loop(subject.name, _values(trainer))
    if loop is None:
        raise Failed("every key given: expected a staleness model, got a ValueError")
    alone = _loop(subject.name, {})
    return f"{loop.model}, interval {loop.interval}" + ("" if alone is not None else "; asks for keys without them")


def _loop(name: str, values: Mapping[str, Any]) -> Age | None:
    """What the trainer says of these settings; None where it refuses. Raises `Failed` for what cannot be stated."""
    try:
        loop = understand(Configuration("settings", "check", values), {}, framework=name).loop
    except ValueError:
        return None
    except Exception as error:
        raise Failed(f"{len(values)} settings: expected an Age, got {_checks.described(error)}") from error
    least = 0 if loop.model == "lag" else 1
    if loop.model not in MODELS:
        raise Failed(f"model: expected {', '.join(MODELS)}, got {loop.model!r}")
    if not isinstance(loop.interval, int) or loop.interval < least:
        raise Failed(f"interval: expected a whole number >= {least}, got {loop.interval!r}")
    if not 0 < loop.block < math.inf:
        raise Failed(f"block: expected a number > 0, got {loop.block!r}")
    empty = next((what for what in ("formula", "terms", "why", "source") if not getattr(loop, what)), None)
    if empty:
        raise Failed(f"{empty}: expected what the interval follows from, got nothing")
    return loop


@check("its configuration is taken for its own", "trainer")
def recognised(subject: Subject) -> str:
    """All its marks and keys, with no word on which trainer it is."""
    trainer: Trainer = subject.variant
    if plain_name(trainer.name) != subject.name:
        raise Failed(f"name: expected one that is {subject.name} in lower case, got {trainer.name!r}")
    if not trainer.marks:
        raise NotApplicable("it has no marks: it is chosen by framework=...")
    values = dict.fromkeys(trainer.marks, 1) | _values(trainer)
    found = understand(Configuration("settings", "check", values), {}).trainer
    if found is not TRAINERS[subject.name]:
        raise Failed(f"{len(values)} keys: expected {trainer.name}, got {found.name}")
    return f"{len(trainer.marks)} marks"
