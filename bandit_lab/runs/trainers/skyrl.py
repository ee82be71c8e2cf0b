"""SkyRL: synchronous, and fully asynchronous up to `max_staleness_steps` steps behind."""

import math

from bandit_lab.runs.trainers import staleness
from bandit_lab.runs.trainers.base import (
    AdvantageRule,
    Age,
    Caveat,
    Default,
    Key,
    Lookup,
    Trainer,
    TrainerReading,
    split_betas,
)
from bandit_lab.runs.trainers.registry import register_trainer

_NOW = "SkyRL main (2026-08-21) skyrl/train/config/config.py"

KEYS = (
    Key("group_size", ("generator.n_samples_per_prompt", "n_samples_per_prompt"), (Default(5, _NOW),)),
    Key("learning_rate", ("policy.optimizer_config.lr",), (Default(1e-6, _NOW),)),
    Key("betas", ("policy.optimizer_config.adam_betas",), (Default([0.9, 0.999], _NOW),)),
    Key("weight_decay", ("policy.optimizer_config.weight_decay",), (Default(0.01, _NOW),)),
    Key("optimizer", ("policy.optimizer_config.type",), (Default("adamw", _NOW),)),
    Key("use_kl_loss", ("algorithm.use_kl_loss",), (Default(True, _NOW),)),
    Key("use_kl_in_reward", ("algorithm.use_kl_in_reward",), (Default(False, _NOW),)),
    Key("kl_loss_coef", ("algorithm.kl_loss_coef",), (Default(0.001, _NOW),), "the weight in the reward too"),
    Key("kl_estimator", ("algorithm.kl_estimator_type",), (Default("k3", _NOW),)),
    Key("clip_low", ("algorithm.eps_clip_low",), (Default(0.2, _NOW),)),
    Key("clip_high", ("algorithm.eps_clip_high",), (Default(0.2, _NOW),)),
    Key("advantage_estimator", ("algorithm.advantage_estimator",), (Default("grpo", _NOW),)),
    Key("grpo_norm_by_std", ("algorithm.grpo_norm_by_std",), (Default(True, _NOW),)),
    Key("train_batch_size", ("trainer.train_batch_size",), (Default(1024, _NOW),), "counts prompts"),
    Key("policy_mini_batch_size", ("trainer.policy_mini_batch_size",), (Default(256, _NOW),), "counts prompts"),
    Key("update_epochs", ("trainer.update_epochs_per_batch",), (Default(1, _NOW),)),
    Key("fully_async", ("fully_async.enabled",), (Default(False, _NOW),)),
    Key("max_staleness_steps", ("fully_async.max_staleness_steps",), (Default(4, _NOW),)),
)


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage and KL of a SkyRL configuration."""
    split_betas(look)
    places = [place for place, key in (("loss", "use_kl_loss"), ("reward", "use_kl_in_reward")) if look.value(key)]
    weight = (look.number("kl_loss_coef") or 0.0) if places else 0.0
    kl = f"{look.value('kl_estimator')} in the {' and the '.join(places)}" if weight else "off"
    rule, traps = _rule(look)
    return TrainerReading(_loop(look), rule, kl, weight, traps, look.number("policy_mini_batch_size", 1))


def _loop(look: Lookup) -> Age:
    epochs, batch, mini = (
        look.number(name, 1) or 1 for name in ("update_epochs", "train_batch_size", "policy_mini_batch_size")
    )
    told = look.value("fully_async") if look.has("fully_async") else look.has("max_staleness_steps")
    names = ("update_epochs", "max_staleness_steps") if told else ("update_epochs", "train_batch_size",
                                                                  "policy_mini_batch_size")  # fmt: skip
    known = staleness.needed({name: look.fact(name) for name in names}, "SkyRL")
    if told:
        return staleness.cycles(
            epochs,
            int(look.number("max_staleness_steps") or 0),
            "update_epochs_per_batch",
            known,
            ("trainer.fully_async.max_staleness_steps", "trainer.update_epochs_per_batch"),
            f"{_NOW}: a group begun at step i and trained at step j has j - i <= max_staleness_steps; a step is one "
            "mini-batch",
        )
    return staleness.cycles(
        epochs * math.ceil(batch / mini - 1e-9),
        0,
        "update_epochs_per_batch * ceil(train_batch_size / policy_mini_batch_size)",
        known,
        ("trainer.update_epochs_per_batch", "trainer.policy_mini_batch_size"),
        f"{_NOW}: each mini-batch is one optimiser step; both sizes count prompts",
    )


def _rule(look: Lookup) -> tuple[AdvantageRule, tuple[Caveat, ...]]:
    estimator, scaled = str(look.value("advantage_estimator")), look.value("grpo_norm_by_std") is not False
    source = f"{_NOW} (advantage_estimator={estimator})"
    if estimator == "grpo" and scaled:
        return AdvantageRule("grpo", "reward minus the group's mean, over its std", "group", 1, 1e-6, source), ()
    if estimator == "grpo":
        return AdvantageRule("dr_grpo", "reward minus the group's mean", "none", source=source), ()
    if estimator == "rloo":
        return AdvantageRule("rloo", "reward minus the mean of the others of the group", "none", source=source), ()
    text = f"the advantage estimator is {estimator}: what is said of groups does not apply"
    return AdvantageRule(None, text, "none", source=source), (Caveat("not_grpo", text, source),)


TRAINER = Trainer(
    "SkyRL",
    "main (2026-08-21)",
    ("policy_mini_batch_size", "update_epochs_per_batch", "fully_async.max_staleness_steps", "fully_async.enabled",
     "policy.optimizer_config.lr", "generator.n_samples_per_prompt", "policy.model.path", "placement.colocate_all"),
    KEYS,
    read,
    step_unit="rollout cycle",
    aside="written from its source and example scripts; no real configuration or log has confirmed it",
    order=80,
)  # fmt: skip


@register_trainer("skyrl")
def skyrl() -> Trainer:
    """SkyRL."""
    return TRAINER
