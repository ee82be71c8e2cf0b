"""The trainers whose recipes are known, any other loop, and which of them a configuration is of."""

import math
from collections.abc import Mapping
from typing import Any

from grpo_clinic.trainers.configuration import load
from grpo_clinic.trainers.recipe import OWN, Key, Recipe, Settings, Trainer, Trap
from grpo_clinic.trainers.trl import TRL
from grpo_clinic.trainers.verl import VERL


def _block(look: Settings) -> float:
    """The updates as given, else epochs * rollout_batch_size / train_batch_size, else 1."""
    if look.given("refresh_interval"):
        return look.at_least_one("refresh_interval")
    rollout, train = look.number("rollout_batch_size"), look.number("train_batch_size")
    batches = 1.0 if rollout is None or train is None else max(rollout / train, 1.0)
    return look.at_least_one("epochs") * batches


_OWN_KEYS = {
    "group_size": Key(("group_size", "num_generations", "rollouts_per_prompt", "G")),
    "refresh_interval": Key(
        ("refresh_interval", "optimizer_steps_per_rollout", "optimizer_updates_per_rollout_batch"),
    ),
    "epochs": Key(("epochs_per_rollout_batch", "ppo_epochs", "num_iterations", "inner_epochs")),
    "rollout_batch_size": Key(("rollout_batch_size",)),
    "train_batch_size": Key(("train_batch_size",)),
    # AReaL, prime-rl, NeMo-RL
    "max_staleness": Key(
        ("max_staleness", "max_head_offpolicyness", "max_off_policy_steps", "max_trajectory_age_steps")
    ),
}
_MARKS = (*(name for key in _OWN_KEYS.values() for name in key.names), "learning_rate", "lr")
_ANY = Trainer(OWN, "", _MARKS, _OWN_KEYS, _block, ("refresh_interval", "epochs", "train_batch_size"), lambda look: [])
TRAINERS = (TRL, VERL, _ANY)


def recipe_of(path: str) -> Recipe:
    """The recipe of a configuration, read as that of the trainer most of whose own keys it has.

    Raises ValueError for one that is of no known trainer, and for values that cannot be.
    """
    values = load(path)
    best = max(TRAINERS[:-1], key=lambda one: one.marked(values))
    best = best if best.marked(values) else _ANY
    if not best.marked(values):
        looked = ", ".join(one.marks[0] for one in TRAINERS)
        raise ValueError(
            f"config: {path}: expected the settings of a trainer, got none that is known (looked for {looked}, ...)"
        )
    return _of_settings(Settings(best, values))


def recipe_in_log(values: Mapping[str, Any], framework: str) -> Recipe:
    """The recipe of the settings in a log of this trainer; empty where they make no sense."""
    trainer = next((one for one in TRAINERS if one.name == framework), _ANY)
    try:
        return _of_settings(Settings(trainer, values, in_log=True, further=_OWN_KEYS)) if values else Recipe()
    except ValueError:
        return Recipe()


def _of_settings(look: Settings) -> Recipe:
    """The recipe of these settings. Raises ValueError for impossible values."""
    trainer = look.trainer
    size = look.number("group_size") if look.given("group_size") or not look.in_log else None
    block, bound = trainer.block(look), look.given("max_staleness")
    steps = None if block is None else max(math.ceil(block - 1e-9), 1)
    traps = trainer.traps(look)
    if steps == 1 and not bound:
        first = "K_ref = 1" if any(map(look.given, trainer.terms)) else "If K_ref = 1, as the defaults have it"
        text = (
            f"{first}: the importance ratio is 1 at every update, so the clipped fraction is 0 by construction. That "
            "is no fault, and the clip range does nothing"
        )
        traps.append(Trap("clip_zero", text, f"{trainer.name} {trainer.release}".strip()))
    if trainer.step_unit:
        other = "verl's counts rollout cycles" if trainer.name == "TRL" else "TRL's counts optimiser steps"
        text = f"a step of {trainer.name}'s log is one {trainer.step_unit} ({other}); one cycle has K_ref of them"
        traps.append(Trap("step_unit", text, f"{trainer.name} {trainer.release}"))
    return Recipe(
        trainer.name,
        int(size) if size else None,
        None if look.in_log else steps,
        look.number("max_staleness", 0) if bound else None,
        bound[0] if bound else "",
        tuple(traps),
    )
