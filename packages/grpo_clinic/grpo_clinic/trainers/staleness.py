"""From rollout cycles to a staleness model: how many cycles behind a batch is, and how many updates a cycle has.

A cycle of N optimiser steps on one batch of rollouts: `refresh` (A, ages 0..N-1) where the batch comes from the policy
at the cycle's start, `pipeline` (C, ages N..2N-1) where it is one cycle older. Further behind, and wherever a trainer
only bounds the age, the largest age stands for all of them as a constant `lag` (B): older is less stable, so this errs
on the conservative side.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from grpo_clinic import _checks
from grpo_clinic.trainers.base import Age, Fact, Model, number_text

_WHY = {
    "refresh": "synchronous: a batch is sampled from the policy at the start of each cycle, and updates reuse it",
    "pipeline": "asynchronous, one cycle behind: updates use the batch that the previous cycle's policy sampled",
    "lag": "asynchronous: the largest age allowed is taken for all samples, which is the conservative side",
}

_NAMED = 3
"""Settings or columns that are named as what says that a run is asynchronous."""


def cycles(
    block: float,
    behind: int,
    formula: str,
    terms: Mapping[str, Fact],
    knobs: tuple[str, ...],
    source: str,
    why: str = "",
) -> Age:
    """The loop of a trainer whose batches are `behind` whole cycles old, each cycle having `block` optimiser steps."""
    steps, notes = _whole(block)
    model: Model = "refresh" if behind == 0 else "pipeline" if behind == 1 else "lag"
    interval = (behind + 1) * steps - 1 if model == "lag" else steps
    return Age(model, interval, block, formula, terms, why or _why(model, steps), knobs, source, notes)


def _why(model: Model, steps: int) -> str:
    if model == "refresh" and steps == 1:
        return "synchronous, one update per batch: every gradient is taken at the policy that acted"
    return _WHY[model]


def at_most(
    age: int, block: float, formula: str, terms: Mapping[str, Fact], knobs: tuple[str, ...], source: str
) -> Age:
    """The loop of a trainer that drops samples older than `age` optimiser steps; synchronous where none may be."""
    if age < 1:
        return cycles(block, 0, formula, terms, knobs, source)
    return Age("lag", age, block, formula, terms, _WHY["lag"], knobs, source)


def _whole(block: float) -> tuple[int, tuple[str, ...]]:
    if block <= 1:
        less = block < 1 - 1e-9
        return 1, (f"several batches of rollouts go into one update (K_ref = {number_text(block)})",) if less else ()
    steps = math.ceil(block - 1e-9)
    rounded = abs(steps - block) > 1e-9
    return steps, (f"K_ref = {number_text(block)} is not whole: taken as {steps}",) if rounded else ()


def of_unknown_age(loop: Age, late: Sequence[str]) -> Age:
    """The loop of a run that is asynchronous by these settings or columns, while nothing says how old its samples are.

    A bound on the age is none of its values: what is run stays the only setting that is known to work.
    """
    named = ", ".join(late[:_NAMED]) + (f" and {len(late) - _NAMED} more" if len(late) > _NAMED else "")
    taken = {"lag": ": the largest age allowed is taken for all samples, which is the conservative side",
             "pipeline": ": one cycle is taken for all samples", "refresh": ""}  # fmt: skip
    return replace(loop, late=named, why=f"asynchronous, ages not known ({named}){taken[loop.model]}")


def as_given(model: Model, interval: float, before: Age) -> Age:
    """The loop that was asked for instead of the trainer's own. Raises ValueError for an interval out of range."""
    steps = _checks.integer("refresh_interval", interval, 0 if model == "lag" else 1)
    terms = {"refresh_interval": Fact(steps, "option", "refresh_interval")}
    why = before.why if (model, steps) == (before.model, before.interval) else _why(model, steps)
    return Age(model, steps, before.block if model == "lag" else float(steps), "as given", terms, why, before.knobs,
                "given", ())  # fmt: skip


def needed(terms: Mapping[str, Fact | None], trainer: str) -> dict[str, Fact]:
    """The terms, all of them known. Raises ValueError that names the missing keys otherwise."""
    missing = [name for name, fact in terms.items() if fact is None or fact.value is None]
    if missing:
        raise ValueError(
            f"config: expected {' and '.join(missing)} of {trainer} to know K_ref, got neither (give "
            f"options.{missing[0]}=..., or refresh_interval=...)"
        )
    return {name: fact for name, fact in terms.items() if fact is not None}
