"""OpenRLHF 0.11, whose options are dotted (`--rollout.n_samples_per_prompt`), and the plain names of before."""

import math

from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import (
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
from grpo_clinic.trainers.registry import register_trainer

_NOW = "OpenRLHF 0.11 train_ppo_ray"

KEYS = (
    Key("group_size", ("rollout.n_samples_per_prompt", "n_samples_per_prompt"), (Default(1, _NOW),)),
    Key("learning_rate", ("actor.adam.lr", "actor_learning_rate", "actor.learning_rate"), (Default(1e-6, _NOW),)),
    Key("betas", ("actor.adam.betas", "adam_betas"), (Default([0.9, 0.95], _NOW),)),
    Key("weight_decay", ("actor.adam.weight_decay", "l2"), (Default(0.0, _NOW),)),
    Key("optimizer", ("actor.optim",), (Default("adam", _NOW),)),
    Key("kl_weight", ("algo.kl.init_coef", "init_kl_coef"), (Default(0.01, _NOW),)),
    Key("use_kl_loss", ("algo.kl.use_loss", "use_kl_loss"), (Default(False, _NOW),)),
    Key("kl_estimator", ("algo.kl.estimator", "kl_estimator"), (Default("k1", _NOW),)),
    Key("clip_low", ("actor.eps_clip_low_high[0]", "eps_clip_low_high[0]", "actor.eps_clip", "eps_clip"),
        (Default(0.2, _NOW),)),
    Key("clip_high", ("actor.eps_clip_low_high[1]", "eps_clip_low_high[1]", "actor.eps_clip", "eps_clip"),
        (Default(0.2, _NOW),)),
    Key("advantage_estimator", ("algo.advantage.estimator", "advantage_estimator"), (Default("gae", _NOW),)),
    Key("no_std_norm", ("algo.advantage.no_std_norm", "no_advantage_std_norm"), (Default(False, _NOW),)),
    Key("dynamic_filtering", ("algo.dynamic_filtering_enable", "dynamic_filtering"), (Default(False, _NOW),)),
    Key("rollout_batch_size", ("rollout.batch_size", "rollout_batch_size"), (Default(1024, _NOW),), "counts prompts"),
    Key("train_batch_size", ("train.batch_size", "train_batch_size"), (Default(128, _NOW),), "counts answers"),
    Key("max_epochs", ("train.max_epochs", "max_epochs"), (Default(1, _NOW),)),
    Key("async_enable", ("train.async_enable", "async_train"), (Default(False, _NOW),)),
    Key("async_queue_size", ("train.async_queue_size", "async_queue_size"), (Default(1, _NOW),)),
)  # fmt: skip


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage and KL of an OpenRLHF run."""
    split_betas(look)
    weight = look.number("kl_weight") or 0.0
    where = f"{look.value('kl_estimator')} in the {'loss' if look.value('use_kl_loss') is True else 'reward'}"
    rule, traps = _rule(look)
    answers, size = look.number("train_batch_size", 1), look.number("group_size", 1)
    return TrainerReading(_loop(look), rule, where if weight else "off", weight, traps, (answers or 1) / (size or 1))


def _loop(look: Lookup) -> Age:
    names = ("rollout_batch_size", "group_size", "train_batch_size", "max_epochs")
    known = staleness.needed({name: look.fact(name) for name in names}, "OpenRLHF")
    prompts, size, batch, epochs = (look.number(name, 1) or 1 for name in names)
    behind = int(look.number("async_queue_size", 1) or 1) if look.value("async_enable") is True else 0
    return staleness.cycles(
        math.ceil(prompts * size / batch - 1e-9) * epochs,
        behind,
        "ceil(rollout.batch_size * n_samples_per_prompt / train.batch_size) * max_epochs",
        known,
        ("train.max_epochs", "train.batch_size", *(("train.async_queue_size",) if behind else ())),
        "OpenRLHF 0.11: a rollout batch counts prompts, a training batch counts answers; the queue holds whole batches",
    )


def _rule(look: Lookup) -> tuple[AdvantageRule, tuple[Caveat, ...]]:
    estimator = str(look.value("advantage_estimator"))
    source, plain = f"OpenRLHF 0.11 (advantage estimator {estimator})", look.value("no_std_norm") is True
    filtered = ", silent groups drawn again" if look.value("dynamic_filtering") is True else ""
    if estimator == "group_norm":
        name = "dapo" if filtered else "grpo"
        return AdvantageRule(
            name, f"reward minus the group's mean, over the group's std{filtered}", "group", 1, 1e-9, source
        ), ()
    if estimator == "dr_grpo" or (estimator == "reinforce_baseline" and plain):
        return AdvantageRule("dr_grpo", f"reward minus the group's mean{filtered}", "none", source=source), ()
    if estimator == "rloo":
        return AdvantageRule("rloo", "reward minus the mean of the others of the group", "none", source=source), ()
    if estimator == "reinforce_baseline":
        text = "reward minus the group's mean, over the std of the whole batch"
        return AdvantageRule("grpo", text, "batch", 0, 1e-8, source), ()
    text = f"the advantage estimator is {estimator}: what is said of groups does not apply"
    return AdvantageRule(None, text, "none", source=source), (Caveat("not_grpo", text, source),)


TRAINER = Trainer(
    "OpenRLHF",
    "0.11",
    ("rollout.n_samples_per_prompt", "rollout.batch_size", "train.batch_size", "train.max_epochs",
     "micro_rollout_batch_size", "algo.advantage.estimator", "advantage_estimator", "actor_learning_rate",
     "init_kl_coef", "micro_train_batch_size", "algo.kl.init_coef"),
    KEYS,
    read,
    aside="checked on the defaults of its 0.11.2 command line and on two of its own example scripts",
    order=30,
)  # fmt: skip


@register_trainer("openrlhf")
def openrlhf() -> Trainer:
    """OpenRLHF."""
    return TRAINER
