"""The trainers whose recipes are known, any other loop, and which of them a configuration is of."""

from collections.abc import Mapping
from typing import Any

from grpo_clinic.trainers.configuration import Configuration
from grpo_clinic.trainers.recipe import OWN, Key, Recipe, Settings, Trainer, ends, of_settings
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
}
_ANY = Trainer(OWN, "", (), _OWN_KEYS, _block, ("refresh_interval", "epochs", "train_batch_size"), lambda look: [])
_MARKS = (*(name for key in _OWN_KEYS.values() for name in key.names), "learning_rate", "lr")
TRAINERS = (TRL, VERL, _ANY)


def recipe_of(document: Configuration) -> Recipe:
    """What a configuration says, in the words of the trainer most of whose own keys it has.

    Raises ValueError for one that is of no known trainer, and for values that cannot be.
    """
    best = max(TRAINERS, key=lambda one: _count(one.marks, document.values))
    if not _count(best.marks, document.values):
        best = _ANY
        if not _count(_MARKS, document.values):
            looked = ", ".join(one.marks[0] for one in TRAINERS if one.marks)
            raise ValueError(
                f"config: {document.path}: expected the settings of a trainer, got none that is known (looked for "
                f"{looked}, group_size, learning_rate, ...)"
            )
    return of_settings(Settings(best, document.values))


def recipe_in_log(values: Mapping[str, Any], framework: str) -> Recipe:
    """What the settings in a log of this trainer say: nothing of them where they make no sense."""
    trainer = next((one for one in TRAINERS if one.name == framework), _ANY)
    try:
        return of_settings(Settings(trainer, values, in_log=True, further=_OWN_KEYS)) if values else Recipe()
    except ValueError:
        return Recipe()


def _count(names: tuple[str, ...], values: Mapping[str, Any]) -> int:
    return sum(any(ends(key, name) for key in values) for name in names)
