"""What a user may say about a log; all of it optional."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from grpo_clinic import _checks
from grpo_clinic.readers.record import STEP_UNITS


@dataclass(frozen=True)
class ReadOptions:
    """Choices that override what the readers would guess.

    `reward_key`, `step_key`, `eval_key` name columns of the log; `where` maps a column to the value that reward rows
    must have there; `run` picks one run of several; `scale` is (lowest, highest) reward possible; `step_unit` and
    `log_every` (optimiser steps per logged row) say what the console text does not; `thin` removes forward-filled
    copies. Where `needs_reward` is false a log without a reward is read for what else it holds.
    """

    reward_key: str | None = None
    step_key: str | None = None
    eval_key: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    run: str | None = None
    scale: tuple[float, float] | None = None
    step_unit: str | None = None
    log_every: int | None = None
    thin: bool = True
    needs_reward: bool = True

    def __post_init__(self) -> None:
        if self.scale is not None:
            low, high = _checks.numbers("scale", self.scale, 2)
            _checks.require(low < high, "scale", "(lowest, highest) reward with lowest < highest", self.scale)
        if self.step_unit is not None:
            _checks.choice("step_unit", self.step_unit, STEP_UNITS)
        if self.log_every is not None:
            _checks.integer("log_every", self.log_every, 1)


def parse_where(where: str | Mapping[str, object] | None) -> dict[str, str]:
    """A row filter from a mapping or from text such as `type=rollout,seed=3`.

    Raises ValueError for text without `=`.
    """
    if where is None:
        return {}
    if isinstance(where, Mapping):
        return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in where.items()}
    conditions = {}
    for part in str(where).split(","):
        key, equals, value = part.partition("=")
        _checks.require(bool(equals and key.strip()), "where", "column=value[,column=value]", where)
        conditions[key.strip()] = value.strip()
    return conditions
