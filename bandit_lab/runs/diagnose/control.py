"""The control run: the same settings at learning rate 0, which tells plumbing from dynamics in ten minutes.

Nothing can be learned at learning rate 0. What moves all the same is no matter of any setting of the training: it comes
from the engine, the weights that it is given, the checker, or the order of the data.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bandit_lab.app.document import Block, Column, Table
from bandit_lab.runs.diagnose.excursions import noise_level
from bandit_lab.runs.diagnose.plumbing import CONTROL_DISTANCE, HELD
from bandit_lab.runs.logs.findings import paragraphs
from bandit_lab.runs.read import Curve
from bandit_lab.runs.trainers import TRAINERS, Trainer, own_loop

STEPS = 20
"""Steps of a control run: few enough for ten minutes, and more than the start that their mean is set beside."""
_FIRST, _FEWEST = 5, 8
_NAMED = ("trl", "verl", "openrlhf", "prime_rl")
"""Trainers whose names are told where a log does not tell its own."""


class ControlRow(NamedTuple):
    """One quantity of the control run, and what it must do."""

    quantity: str
    must: str


def recipe(curve: Curve, trainer: Trainer | None) -> list[Block]:
    """What to run, what must stay as it is, and what each end means; in the words of the trainer, where it is known."""
    known = trainer or next((one for one in TRAINERS.values() if one.name == curve.framework), None)
    told = [known] if known is not None and known is not own_loop.TRAINER else [TRAINERS[name] for name in _NAMED]
    table = Table(_rows(curve), [
        Column("quantity", "in the control run", lambda row: row.quantity),
        Column("must", "must", lambda row: row.must, left=True),
    ])  # fmt: skip
    return [*paragraphs(_first(told)), table, *paragraphs(_then("lr" in curve.series))]


def _first(trainers: Sequence[Trainer]) -> list[str]:
    settings = "; ".join(f"{one.name}: {_learning_rate_names(one)}" for one in trainers)
    return [
        f"Control run: the same configuration, seed and prompts at learning rate 0, {STEPS} steps.",
        f"Set {settings}. Weight decay is multiplied by the learning rate, and is off too.",
    ]


def _learning_rate_names(trainer: Trainer) -> str:
    names = next(key.names for key in trainer.keys if key.quantity == "learning_rate")
    return f"{names[0]}=0" + (f" (or {' or '.join(names[1:])})" if names[1:] else "")


def _rows(curve: Curve) -> list[ControlRow]:
    """What a log of this kind holds, and what of it a control run must show."""
    key = curve.reward_series.key
    rows = [ControlRow(f"reward '{key}'" if key else "reward (log it)", _level(curve))]
    rows += [
        ControlRow(f"{name.replace('_', ' ')} '{one.key}'", held.must.format(start=one.value[:_FIRST].mean()))
        for name, held in HELD.items()
        if (one := curve.series.get(name)) is not None
    ]
    if not {"mismatch", "importance_ratio"} & set(curve.series):
        rows.append(
            ControlRow(
                "log-probabilities (log them)", f"lie below {CONTROL_DISTANCE:g} nats apart in engine and trainer"
            )
        )
    return rows


def _level(curve: Curve) -> str:
    if curve.reward.size < _FEWEST:
        return "stay at its first level"
    start, noise = float(curve.reward[:_FIRST].mean()), noise_level(curve.reward)
    within = 2 * 2 * noise * np.sqrt(1 / _FIRST + 1 / STEPS)  # twice the error, itself twice that of white noise
    return f"stay level: a mean of {STEPS} steps within {within:.2g} of {start:.3g}, where this run began"


def _then(rate_logged: bool) -> list[str]:
    needs = "" if rate_logged else "Log the learning rate in it, as this log does not: only then it is known. "
    return [
        f"{needs}Give its log to `diagnose`: a reward that falls at learning rate 0 is named plumbing.",
        "If anything moves: mend the engine, the weights that it is given, or the checker. No setting helps before.",
        "If all stays: the plumbing that it tests is in order, and the run's own failure is one of its dynamics.",
        "It does not test whether new weights arrive: an engine that never gets any passes. That shows in the run "
        "itself, as log-probabilities of engine and trainer that drift apart.",
    ]
