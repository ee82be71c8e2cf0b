"""A run's settings as its trainer understands them: which trainer, every value with its origin, K_ref, traps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_clinic import _checks
from grpo_clinic.law import MODELS
from grpo_clinic.readers import asynchrony
from grpo_clinic.trainers import own_loop, staleness
from grpo_clinic.trainers.base import QUANTITIES, Age, Caveat, Fact, Lookup, Trainer, TrainerReading, version
from grpo_clinic.trainers.configuration import Configuration
from grpo_clinic.trainers.registry import TRAINERS, plain_name

_LEAST = {"group_size": 1, "learning_rate": 0, "weight_decay": 0, "kl_weight": 0, "clip_low": 0, "clip_high": 0}
ADAM = ("adam", "lamb")
OPTIMISERS = "adamw, adam, lamb, adafactor, rmsprop, sgd or nesterov (optimizer=... reads it as one of them)"


@dataclass(frozen=True)
class Setup:
    """One run's settings.

    `facts` by quantity (see `base.QUANTITIES`, and the terms of K_ref), `reading` what the trainer makes of them,
    `convention` the momentum convention of the optimiser, `momentum` beta1 or mu; None where unknown.
    """

    trainer: Trainer
    recognised: tuple[str, ...]
    facts: Mapping[str, Fact]
    reading: TrainerReading
    optimizer: str
    convention: str
    momentum: float
    traps: tuple[Caveat, ...] = field(default=())

    @property
    def loop(self) -> Age:
        """Staleness model and interval."""
        return self.reading.loop

    @property
    def adaptive(self) -> bool:
        """Whether the optimiser divides by a second moment."""
        return self.convention == "ema" and self.optimizer != "sgd_ema"

    def number(self, quantity: str) -> float | None:
        """A quantity's value as a number, or None."""
        found = self.facts.get(quantity)
        number = found is not None and isinstance(found.value, int | float) and not isinstance(found.value, bool)
        return float(found.value) if found is not None and number else None


def understand(
    document: Configuration | None,
    options: Mapping[str, Any],
    given: Mapping[str, Any] | None = None,
    framework: str | None = None,
    release: str | None = None,
    logged: Configuration | None = None,
    log_of: str = "",
    late_columns: tuple[str, ...] = (),
) -> Setup:
    """The settings of a document, of options in the trainer's own words, and of what is `given` by quantity (it wins).

    `given` may hold `QUANTITIES`, `staleness` and `refresh_interval` (of that staleness). `framework` names the
    trainer; without it the keys of the document tell, else `log_of`, whose log it is. `release` is its version, for
    defaults that changed. `logged` are settings in the log: they win over those of the document. `late_columns` are
    columns of the log that say that samples may be stale.
    Raises ValueError for keys that no trainer knows and for values that cannot be.
    """
    values = {} if document is None else document.values
    trainer, how = _trainer({**values, **options}, framework, document, log_of)
    numbers = () if release is None else version(str(release))
    _checks.require(release is None or bool(numbers), "version", "a release such as 0.17", release)
    common = {key.quantity: key.names for key in own_loop.KEYS}
    told = {} if logged is None else logged.values
    look = Lookup(trainer, values, options, numbers, given or {}, logged=told, common=common)
    reading = _with_interval(trainer.read(look), look)
    if "staleness" not in look.given:
        reading = _with_ages(reading, look, late_columns)
    for quantity in QUANTITIES:
        if quantity not in look.used:
            look.fact(quantity)
    if document is None and logged is None and not options:  # a trap that rests on defaults alone is no finding
        reading = replace(reading, traps=tuple(one for one in reading.traps if not one.severe))
    found = _checked(trainer, document, how, look, reading)
    return found if logged is None else replace(found, recognised=(_described(logged), *found.recognised))


def _described(document: Configuration) -> str:
    return f"{document.path}: {document.kind}, {len(document.values)} values"


def _with_interval(reading: TrainerReading, look: Lookup) -> TrainerReading:
    """The reading with the interval that was given, or that the log has where the trainer's settings do not tell."""
    loop, given = reading.loop, look.given
    model, interval = given.get("staleness", loop.model), given.get("refresh_interval")
    counted = next((name for name in look.common.get("refresh_interval", ()) if name in look.logged), None)
    if interval is None and counted is not None and loop.assumed and model == loop.model == "refresh":
        fact = Fact(look.logged[counted], "log", counted)
        block = _checks.positive(counted, fact.value)
        counting = staleness.cycles(block, 0, "as the log has it", {counted: fact}, loop.knobs, "log")
        return replace(reading, loop=counting)
    if model == loop.model and interval is None:
        return reading
    _checks.choice("staleness", model, MODELS)
    return replace(reading, loop=staleness.as_given(model, loop.block if interval is None else interval, loop))


def _with_ages(reading: TrainerReading, look: Lookup, columns: tuple[str, ...]) -> TrainerReading:
    """The reading, never called synchronous where a setting or column says otherwise.

    Settings that the trainer's rule reads, and their neighbours, say nothing where that rule finds the loop
    synchronous: they are switched off, or are defaults of a mode that is not used.
    """
    loop, stores = reading.loop, {**look.values, **look.logged, **look.options}
    settings = asynchrony.switched_on(stores)
    if loop.model == "refresh":
        read = {asynchrony.section(name.partition("[")[0]) for key in look.trainer.keys for name in key.names}
        settings = {key: there for key, there in settings.items() if not any(_holds(one, {there: 0}) for one in read)}
    late = [*(f"'{key}' = {stores[key]}" for key in settings), *(f"'{key}' in the log" for key in columns)]
    if not late and loop.model == "lag":
        late = [f"{name} = {fact.value}" for name, fact in loop.terms.items() if name in loop.knobs] or [*loop.knobs]
    return replace(reading, loop=staleness.of_unknown_age(loop, late)) if late else reading


def _trainer(
    values: Mapping[str, Any], framework: str | None, document: Configuration | None, log_of: str
) -> tuple[Trainer, str]:
    if framework is not None:
        name = plain_name(framework)
        _checks.choice("framework", name, TRAINERS)
        return TRAINERS[name], "given"
    scores = {name: _score(one, values) for name, one in TRAINERS.items()} if values else {}
    best = max(scores, key=lambda name: scores[name], default="")
    if best and scores[best]:
        marks = [mark for mark in TRAINERS[best].marks if _holds(mark, values)]
        return TRAINERS[best], f"by its keys {', '.join(marks[:4])}"
    known = any(_holds(name, values) for key in own_loop.KEYS for name in key.names)
    theirs = TRAINERS.get(plain_name(log_of), own_loop.TRAINER)
    if theirs is not own_loop.TRAINER and (document is None or known):
        return theirs, "by its log"
    if document is not None and not known:
        looked = ", ".join(next(iter(one.marks), "") for one in TRAINERS.values() if one.marks)
        raise ValueError(
            f"config: {document.path}: expected the settings of a trainer, got none that is known (looked for "
            f"{looked}, group_size, learning_rate, ...; framework=... names the trainer)"
        )
    if log_of and document is None:
        rules = "" if log_of == own_loop.TRAINER.name else f" of {log_of}, whose rules are not known here"
        return own_loop.TRAINER, f"by its log{rules}"
    if document is None and not values:
        return own_loop.TRAINER, "assumed: no configuration is given (nor framework=..., which names the trainer)"
    return own_loop.TRAINER, "assumed: no key is a known trainer's own"


def _score(trainer: Trainer, values: Mapping[str, Any]) -> int:
    return sum(_holds(mark, values) for mark in trainer.marks)


def _holds(name: str, values: Mapping[str, Any]) -> bool:
    return name in values or any(key.endswith(f".{name}") for key in values)


def _checked(
    trainer: Trainer, document: Configuration | None, how: str, look: Lookup, reading: TrainerReading
) -> Setup:
    facts = dict(look.used)
    for quantity, least in _LEAST.items():
        if quantity in facts:
            facts[quantity] = replace(facts[quantity], value=look.number(quantity, least))
    optimizer, convention, momentum = _optimizer(facts, look)
    recognised = [f"{trainer.name}, {how}"]
    if document is not None:
        recognised.insert(0, _described(document))
    if trainer.release:
        recognised.append(f"rules and defaults as of {trainer.name} {trainer.release}")
    recognised += [trainer.aside] if trainer.aside else []
    loop = reading.loop
    if loop.model == "refresh" and loop.interval == 1 and not loop.late:
        first = "If K_ref = 1, as the defaults have it" if loop.assumed else "K_ref = 1"
        text = (
            f"{first}: the importance ratio is 1 at every update, so the clipped fraction is 0 by construction. That "
            "is no fault, and the clip range does nothing"
        )
        traps = (*reading.traps, Caveat("clip_zero", text, loop.source))
    else:
        traps = reading.traps
    if trainer.step_unit:
        counts_updates = trainer.step_unit == "optimiser step"
        other = "verl's counts rollout cycles" if counts_updates else "TRL's counts optimiser steps"
        text = f"a step of {trainer.name}'s log is one {trainer.step_unit} ({other}); one cycle has K_ref of them"
        traps = (*traps, Caveat("step_unit", text, f"{trainer.name} {trainer.release}"))
    return Setup(trainer, tuple(recognised), facts, reading, optimizer, convention, momentum, traps)


def _optimizer(facts: dict[str, Fact], look: Lookup) -> tuple[str, str, float]:
    """(name, momentum convention, momentum)."""
    found = facts.get("optimizer")
    name = "adamw" if found is None else str(found.value).rpartition(".")[2].lower()
    beta1 = facts.get("beta1")
    momentum = 0.9 if beta1 is None else beta1.value
    inside = isinstance(momentum, int | float) and not isinstance(momentum, bool) and 0 <= momentum < 1
    _checks.require(inside, beta1.key if beta1 is not None else "momentum", "a number in [0, 1)", momentum)
    if "sgd" in name and beta1 is not None and beta1.origin == "default":  # Adam's beta1 is not torch.optim.SGD's
        momentum = look.number("momentum") or 0.0
    if name == "sgd" or name.startswith("sgd_"):
        return name, "ema" if name == "sgd_ema" else "heavy_ball", float(momentum)
    if "nesterov" in name:
        return name, "nesterov", float(momentum)
    if "rmsprop" in name or "adafactor" in name:
        return name, "ema", 0.0
    known = any(part in name for part in ADAM)
    key = "optimizer" if found is None or "optimizer" in look.given else found.key
    _checks.require(known, key, OPTIMISERS, name)
    return name, "ema", float(momentum)
