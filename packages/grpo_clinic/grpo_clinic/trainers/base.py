"""What is known of a trainer, as data: names of its settings, defaults with their source, and how it refreshes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_WORDS = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
    "null": None, "none": None, "~": None, "": None, "???": None,
}  # fmt: skip
_LONGEST = 400
LARGEST = 1e15
"""Numbers beyond it are no settings, and products of them no floats."""


Origin = Literal["config", "log", "option", "default", "worked out"]
Model = Literal["refresh", "lag", "pipeline"]
QUANTITIES = (
    "group_size", "learning_rate", "beta1", "beta2", "optimizer", "weight_decay", "kl_weight", "clip_low", "clip_high",
)  # fmt: skip
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,([^}]*))?\}")


def plain_scalar(value: Any) -> Any:
    """A number, truth value, None or text of at most 400 characters; what is neither becomes None."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value if abs(value) < LARGEST else None
    if not isinstance(value, str):
        return None
    text = value.strip().strip("'\"")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = as_number(text)
    return text[:_LONGEST] if number is None else number


def as_number(text: str) -> int | float | None:
    """The number that a text is (`1e-6` and `1_024` too), or None, as for one that no setting can be."""
    if len(text) > 40 or not any(c.isdigit() for c in text):
        return None
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return number if abs(number) < LARGEST else None
    return None


@dataclass(frozen=True)
class Default:
    """What a trainer takes where nothing is given: `release` in which it was read, `since`/`until` releases it held."""

    value: Any
    release: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True)
class Key:
    """One quantity under a trainer's names, the current one first; `note` where the name alone would mislead.

    `name[0]` and `name[1]` are the two numbers of a pair.
    """

    quantity: str
    names: tuple[str, ...]
    defaults: tuple[Default, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Fact:
    """A value, where it comes from, and under which key."""

    value: Any
    origin: Origin
    key: str
    source: str = ""

    @property
    def text(self) -> str:
        """The value with its origin, for people."""
        about = {"config": f"'{self.key}'", "log": f"'{self.key}' in the log", "option": f"{self.key} given"}
        return f"assumed: default, {self.source}" if self.assumed else about.get(self.origin, self.source)

    @property
    def assumed(self) -> bool:
        """Whether nobody said so: the trainer's default, or a guess."""
        return self.origin == "default"


@dataclass(frozen=True)
class Age:
    """How old the acting policy is.

    `model` refresh (A), lag (B) or pipeline (C) with `interval` N [optimiser steps; lag: largest age]; `block` is
    K_ref, optimiser steps per rollout cycle as the trainer's settings give it (may be fractional). `formula` with its
    `terms`, `why` this model, `knobs` that change the interval, `source` of the rule. `late` names what says that the
    samples are older than a synchronous loop's while nothing says how old; model and interval are then those of the
    largest age allowed, or of the loop without that.
    """

    model: Model
    interval: int
    block: float
    formula: str
    terms: Mapping[str, Fact]
    why: str
    knobs: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()
    late: str = ""

    @property
    def unbounded(self) -> bool:
        """Whether nothing bounds the ages: they are not known, and not even the largest one is."""
        return bool(self.late) and self.model == "refresh"

    @property
    def assumed(self) -> bool:
        """Whether the interval rests on defaults alone."""
        return all(fact.assumed or fact.origin == "worked out" for fact in self.terms.values())


@dataclass(frozen=True)
class AdvantageRule:
    """What an advantage is: `name` as in theory (grpo, dr_grpo, rloo, dapo) or None where it has none; `ddof` and
    `eps` of the std; `std` over the group, the batch, or none; `ratio`: importance weights are used."""

    name: str | None
    text: str
    std: Literal["group", "batch", "none"]
    ddof: int = 1
    eps: float = 0.0
    source: str = ""


@dataclass(frozen=True)
class Caveat:
    """One thing that misleads: `name` for programs, `text` for people, `source`."""

    name: str
    text: str
    source: str
    severe: bool = False


@dataclass(frozen=True)
class TrainerReading:
    """What a trainer's module makes of its settings."""

    loop: Age
    rule: AdvantageRule
    kl_text: str
    kl_weight: float | None
    traps: tuple[Caveat, ...] = ()
    prompts: float | None = None


@dataclass(frozen=True)
class Trainer:
    """See `register_trainer`. `step_unit` is what its logs count, empty where not known; `order` is for ours."""

    name: str
    release: str
    marks: tuple[str, ...]
    keys: tuple[Key, ...]
    read: Callable[["Lookup"], TrainerReading]
    step_unit: str = ""
    aside: str = ""
    order: int = 0


@dataclass
class Lookup:
    """The settings of one run: `given` by quantity, then options, what is `logged`, the configuration, the defaults.

    What is logged may stand there under the trainer's names or those in `common`, by quantity.
    """

    trainer: Trainer
    values: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    version: tuple[int, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    used: dict[str, Fact] = field(default_factory=dict)
    logged: Mapping[str, Any] = field(default_factory=dict)
    common: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def key(self, quantity: str) -> Key:
        """The trainer's entry of a quantity."""
        return next(key for key in self.trainer.keys if key.quantity == quantity)

    def has(self, quantity: str) -> bool:
        """Whether it is given at all, not a default."""
        return quantity in self.given or self._given(self.key(quantity)) is not None

    def fact(self, quantity: str) -> Fact | None:
        """The quantity with its origin; None where it is neither given nor has a default."""
        entry = next((key for key in self.trainer.keys if key.quantity == quantity), None)
        if quantity in self.given:
            found: Fact | None = Fact(self.given[quantity], "option", quantity)
        elif entry is None:
            return None
        else:
            found = self._given(entry) or self._default(entry)
        if found is not None:
            self.used[quantity] = found
        return found

    def value(self, quantity: str) -> Any:
        """Its value, or None."""
        found = self.fact(quantity)
        return None if found is None else found.value

    def number(self, quantity: str, least: float = 0.0) -> float | None:
        """Its value as a number. Raises ValueError (the trainer's own key, expected, got) for anything else."""
        found = self.fact(quantity)
        if found is None or found.value is None:
            return None
        good = isinstance(found.value, int | float) and not isinstance(found.value, bool) and found.value >= least
        if not good:
            raise ValueError(f"{found.key}: expected a number >= {least:g}, got {found.value!r}")
        return float(found.value)

    def _given(self, entry: Key) -> Fact | None:
        for origin, store in (("option", self.options), ("log", self.logged), ("config", self.values)):
            for name in (*entry.names, *(self.common.get(entry.quantity, ()) if origin == "log" else ())):
                bare, _, place = name.rstrip("]").partition("[")
                for key in _matching(bare, store):
                    value = _resolved(store[key], store)
                    if place and value is not None:
                        value = _one_of_two(key, value, int(place))
                    if value is not None:
                        return Fact(value, origin, key)  # type: ignore[arg-type]
        return None

    def _default(self, entry: Key) -> Fact | None:
        if not entry.defaults:
            return None
        fitting = [one for one in entry.defaults if self._holds(one)] or list(entry.defaults)
        chosen = fitting[0]
        others = [one for one in entry.defaults if one.value != chosen.value and not self.version]
        text = chosen.release + "".join(f"; {one.value} {_span(one)}" for one in others)
        return Fact(chosen.value, "default", entry.names[0], text)

    def _holds(self, default: Default) -> bool:
        if not self.version:
            return not default.until
        after = not default.since or self.version >= version(default.since)
        return after and (not default.until or self.version[:2] <= version(default.until)[:2])


def version(text: str) -> tuple[int, ...]:
    """`0.17.1` as (0, 17, 1); what is no number ends it."""
    numbers = []
    for part in re.split(r"[.\-+]", text.strip().lstrip("v")):
        if not part.isdigit() or len(part) > 6:
            break
        numbers.append(int(part))
    return tuple(numbers)


def _span(default: Default) -> str:
    since, until = default.since and f"since {default.since}", default.until and f"until {default.until}"
    return " ".join(part for part in (since, until) if part) or default.release


def _matching(name: str, store: Mapping[str, Any]) -> list[str]:
    """Keys that are the name or end in it, the least nested first."""
    found = [key for key in store if key == name or key.endswith(f".{name}")]
    return sorted(found, key=lambda key: key.count("."))


def _one_of_two(key: str, value: Any, place: int) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{key}: expected two numbers, got {value!r}")
    return value[place]


def _resolved(value: Any, store: Mapping[str, Any], depth: int = 0) -> Any:
    """The value with a reference such as `${a.b}` put in; None where it cannot be."""
    if not isinstance(value, str) or "$" not in value:
        return value
    found = _REFERENCE.fullmatch(value)
    if found is None or depth > 8:
        return None
    if found[1] in store:
        return _resolved(store[found[1]], store, depth + 1)
    return None if found[2] is None else plain_scalar(found[2])


def number_text(value: float) -> str:
    """A number as people write it."""
    return f"{value:.6g}"


def split_betas(look: Lookup) -> None:
    """Put the two numbers of Adam's `betas` among the facts. Raises ValueError unless they are two."""
    found = look.fact("betas")
    if found is None or not isinstance(found.value, list) or len(found.value) != 2:
        raise ValueError(f"{look.key('betas').names[0]}: expected two numbers, got {found and found.value!r}")
    for place, name in enumerate(("beta1", "beta2")):
        if look.fact(name) is None:
            look.used[name] = Fact(found.value[place], found.origin, f"{found.key}[{place}]", found.source)
