"""What a user may say about a log; all of it optional."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from grpo_clinic import _checks

_WORDS = {str: "text", bool: "true or false", tuple: "a list"}
UNITS = {"optimiser_step": "optimiser step", "rollout_cycle": "rollout cycle"}


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading a log.

    reward_key     column to read as the reward; by default the trainer's known names
    step_key       column to read as the step
    eval_key       column to read as the held-out result
    where          rows that count: "type=rollout" (several: "type=rollout,seed=3"), or a mapping
    run            one run of several in a file: its name, or a part that no other has
    reward_scale   (lowest, highest) possible reward; estimated by default
    step_unit      what the log counts, `optimiser_step` or `rollout_cycle`, where it does not tell
    log_every      optimiser steps per logged row, where the log does not tell
    thin           take the copies out of forward-filled columns
    eval_path      file with the held-out results of the run, joined by step; `eval_key` then is a column of it
    beside         further files of the same run: columns that the log lacks
    needs_reward   false: a log without a reward is read, too, where it holds something that a diagnosis is told from
    """

    reward_key: str | None = None
    step_key: str | None = None
    eval_key: str | None = None
    where: Any = None
    run: str | None = None
    reward_scale: tuple[float, float] | None = None
    step_unit: str | None = None
    log_every: int | None = None
    thin: bool = True
    eval_path: str | Path | None = None
    beside: tuple[str | Path, ...] = ()
    needs_reward: bool = True

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            kinds = [get_origin(one) or one for one in (get_args(hint) if get_origin(hint) is UnionType else (hint,))]
            if words := next((_WORDS[kind] for kind in kinds if kind in _WORDS), ""):
                allowed = tuple(Iterable if kind is tuple else kind for kind in kinds)
                _checks.require(isinstance(getattr(self, name), allowed), name, words, getattr(self, name))
        if self.reward_scale is not None:
            low, high = _checks.numbers("reward_scale", self.reward_scale, 2)
            _checks.require(low < high, "reward_scale", "(lowest, highest) with lowest < highest", self.reward_scale)
        if self.step_unit is not None:
            _checks.choice("step_unit", self.step_unit, UNITS)
        if self.log_every is not None:
            _checks.integer("log_every", self.log_every, 1)
        self.conditions()

    def conditions(self) -> dict[str, str]:
        """`where` as column -> value. Raises ValueError for text without `=`."""
        if isinstance(self.where, Mapping):
            given = self.where.items()
            return {str(key): str(one).lower() if isinstance(one, bool) else str(one) for key, one in given}
        conditions = {}
        for part in str(self.where).split(",") if self.where else ():
            key, equals, value = part.partition("=")
            _checks.require(bool(equals and key.strip()), "where", "column=value[,column=value]", self.where)
            conditions[key.strip()] = value.strip()
        return conditions
