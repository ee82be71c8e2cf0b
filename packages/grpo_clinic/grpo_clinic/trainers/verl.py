"""verl: synchronous PPO trainer, one-step-off, and the fully asynchronous trainers."""

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
    number_text,
    split_betas,
)
from grpo_clinic.trainers.registry import register_trainer

_NOW = "verl 0.9.0 ppo_trainer.yaml"
_ASYNC = "verl fully_async_policy README (2025-12-25)"
_V1 = "verl trainer.v1 (0.10.0.dev)"

KEYS = (
    Key("group_size", ("actor_rollout_ref.rollout.n", "rollout.n"), (Default(1, _NOW),)),
    Key("learning_rate", ("actor_rollout_ref.actor.optim.lr", "actor.optim.lr"), (Default(1e-6, _NOW),)),
    Key("betas", ("actor_rollout_ref.actor.optim.betas", "actor.optim.betas"), (Default([0.9, 0.999], _NOW),)),
    Key("weight_decay", ("actor_rollout_ref.actor.optim.weight_decay",), (Default(0.01, _NOW),)),
    Key("optimizer", ("actor_rollout_ref.actor.optim.optimizer",), (Default("AdamW", _NOW),)),
    Key("use_kl_loss", ("actor_rollout_ref.actor.use_kl_loss", "actor.use_kl_loss"), (Default(False, _NOW),)),
    Key("kl_loss_coef", ("actor_rollout_ref.actor.kl_loss_coef", "actor.kl_loss_coef"), (Default(0.001, _NOW),)),
    Key("kl_loss_type", ("actor_rollout_ref.actor.kl_loss_type",), (Default("low_var_kl", _NOW),)),
    Key("use_kl_in_reward", ("algorithm.use_kl_in_reward",), (Default(False, _NOW),)),
    Key("kl_coef", ("algorithm.kl_ctrl.kl_coef",), (Default(0.001, _NOW),)),
    Key("clip_low", ("actor_rollout_ref.actor.clip_ratio_low", "actor_rollout_ref.actor.clip_ratio"),
        (Default(0.2, _NOW),)),
    Key("clip_high", ("actor_rollout_ref.actor.clip_ratio_high", "actor_rollout_ref.actor.clip_ratio"),
        (Default(0.2, _NOW),)),
    Key("adv_estimator", ("algorithm.adv_estimator",), (Default("gae", _NOW),)),
    Key("norm_adv_by_std_in_grpo", ("algorithm.norm_adv_by_std_in_grpo",), (Default(True, _NOW),)),
    Key("filter_groups", ("algorithm.filter_groups.enable",), (Default(False, _NOW),)),
    Key("train_batch_size", ("data.train_batch_size",), (Default(1024, _NOW),), "counts prompts"),
    Key("ppo_mini_batch_size", ("actor_rollout_ref.actor.ppo_mini_batch_size", "actor.ppo_mini_batch_size"),
        (Default(256, _NOW),), "counts prompts; multiplied by rollout.n inside"),
    Key("ppo_epochs", ("actor_rollout_ref.actor.ppo_epochs", "actor.ppo_epochs"), (Default(1, _NOW),)),
    Key("hybrid_engine", ("actor_rollout_ref.hybrid_engine",), (Default(True, _NOW),)),
    Key("staleness_threshold", ("async_training.staleness_threshold",)),
    Key("trigger_parameter_sync_step", ("async_training.trigger_parameter_sync_step",), (Default(4, _ASYNC),)),
    Key("require_batches", ("async_training.require_batches",), (Default(1, _ASYNC),)),
    Key("trainer_mode", ("trainer.v1.trainer_mode",)),
    Key("parameter_sync_step", ("trainer.v1.separate_async.parameter_sync_step", "parameter_sync_step"),
        (Default(4, _V1),)),
    Key("max_off_policy_threshold", ("trainer.v1.sampler.max_off_policy_threshold", "max_off_policy_threshold"),
        (Default(8, _V1),)),
)  # fmt: skip
_RULE = "verl 0.9.0: each epoch goes through the batch in mini-batches of ppo_mini_batch_size prompts"


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage, KL and traps of a verl configuration."""
    split_betas(look)
    rule, traps = _rule(look)
    text, weight = _kl(look)
    return TrainerReading(
        _loop(look), rule, text, weight, (*traps, *_kl_traps(look)), look.number("ppo_mini_batch_size", 1)
    )


def _loop(look: Lookup) -> Age:
    if look.has("trainer_mode") and "async" in str(look.value("trainer_mode")):
        return _buffered(look)
    if look.has("staleness_threshold"):
        return _streamed(look)
    terms = {name: look.fact(name) for name in ("ppo_epochs", "train_batch_size", "ppo_mini_batch_size")}
    known = staleness.needed(terms, "verl")
    epochs, batch, mini = (look.number(name, 1) or 1 for name in terms)
    block = epochs * math.ceil(batch / mini - 1e-9)
    one_off = look.value("hybrid_engine") is False
    knobs = ("actor_rollout_ref.actor.ppo_epochs", "actor_rollout_ref.actor.ppo_mini_batch_size")
    formula = "ppo_epochs * ceil(train_batch_size / ppo_mini_batch_size)"
    why = "hybrid_engine is off without async_training: one-step-off, each batch is one cycle old" if one_off else ""
    return staleness.cycles(block, int(one_off), formula, known, knobs, _RULE, why)


def _streamed(look: Lookup) -> Age:
    names = ("trigger_parameter_sync_step", "require_batches", "ppo_epochs")
    known = staleness.needed({name: look.fact(name) for name in (*names, "staleness_threshold")}, "verl")
    sync, batches, epochs = (look.number(name, 1) or 1 for name in names)
    threshold = look.number("staleness_threshold") or 0.0
    behind = math.ceil(threshold - 1e-9)
    why = ""
    if behind == 1:
        why = (
            f"staleness_threshold {number_text(threshold)}: up to that share of samples is one parameter "
            "synchronisation old; all are taken to be, which is the conservative side (1 is one-step-off)"
        )
    return staleness.cycles(
        sync * batches * epochs,
        behind,
        "trigger_parameter_sync_step * require_batches * ppo_epochs",
        known,
        ("async_training.trigger_parameter_sync_step", "async_training.staleness_threshold"),
        f"{_ASYNC}: that many local updates between two synchronisations of the rollout's parameters",
        why,
    )


def _buffered(look: Lookup) -> Age:
    names = ("parameter_sync_step", "max_off_policy_threshold", "ppo_epochs", "train_batch_size", "ppo_mini_batch_size")
    known = staleness.needed({name: look.fact(name) for name in names}, "verl")
    sync, oldest, epochs, batch, mini = (look.number(name, 1) or 1 for name in names)
    block = sync * epochs * math.ceil(batch / mini - 1e-9)
    return staleness.at_most(
        int(oldest * block),
        block,
        "largest age max_off_policy_threshold * parameter_sync_step * ppo_epochs * ceil(train_batch_size / "
        "ppo_mini_batch_size)",
        known,
        ("trainer.v1.sampler.max_off_policy_threshold", "trainer.v1.separate_async.parameter_sync_step"),
        f"{_V1}: samples that span more model versions than the threshold are dropped",
    )


def _rule(look: Lookup) -> tuple[AdvantageRule, list[Caveat]]:
    estimator, size = str(look.value("adv_estimator")).rpartition(".")[2].lower(), look.number("group_size", 1) or 1
    source = f"verl 0.9.0 core_algos (adv_estimator={estimator})"
    traps: list[Caveat] = []
    if estimator.startswith("grpo") and size == 1:
        traps.append(
            Caveat(
                "no_baseline",
                "adv_estimator=grpo with rollout.n=1: the mean is set to 0 and the std to 1, so the advantage is the "
                "raw reward. There is no baseline, and nothing says so: set actor_rollout_ref.rollout.n to 4 or more",
                "verl 0.9.0 core_algos, compute_grpo_outcome_advantage",
                severe=True,
            )
        )
        return AdvantageRule(None, "the raw reward: no baseline (rollout.n=1)", "none", source=source), traps
    if estimator.startswith("grpo"):
        scaled = look.value("norm_adv_by_std_in_grpo") is not False
        name = "dapo" if scaled and look.value("filter_groups") is True else "grpo" if scaled else "dr_grpo"
        text = "reward minus the group's mean"
        text += ", over the group's std (torch.std, n - 1; + 1e-6)" if scaled else ", not divided by a std"
        text += ", silent groups drawn again" if look.value("filter_groups") is True else ""
        return AdvantageRule(name, text, "group" if scaled else "none", 1, 1e-6 if scaled else 0.0, source), traps
    if estimator == "rloo":
        return AdvantageRule("rloo", "reward minus the mean of the others of the group", "none", source=source), traps
    if estimator == "gae":
        text = "adv_estimator is gae (the default): PPO with a critic, not GRPO; what is said of groups does not apply"
        traps.append(Caveat("not_grpo", text, _NOW, severe=not look.has("adv_estimator")))
    return AdvantageRule(None, f"adv_estimator={estimator}", "none", source=source), traps


def _kl(look: Lookup) -> tuple[str, float]:
    parts, weight = [], 0.0
    if look.value("use_kl_loss") is True:
        weight += look.number("kl_loss_coef") or 0.0
        parts.append(f"in the loss, kl_loss_type={look.value('kl_loss_type')}")
    if look.value("use_kl_in_reward") is True:
        weight += look.number("kl_coef") or 0.0
        parts.append("in the reward (k1)")
    off = "off: neither use_kl_loss nor use_kl_in_reward"
    off = off if look.has("use_kl_loss") or look.has("use_kl_in_reward") else f"assumed {off}"
    return "; ".join(parts) or off, weight


def _kl_traps(look: Lookup) -> list[Caveat]:
    found = []
    if look.has("kl_loss_coef") and look.value("use_kl_loss") is not True and (look.number("kl_loss_coef") or 0) > 0:
        text = "kl_loss_coef is set but use_kl_loss is not true: it has no effect"
        found.append(Caveat("kl_loss_off", text, _NOW))
    if (look.number("ppo_mini_batch_size", 1) or 1) > (look.number("train_batch_size") or 0) > 0:
        fact = look.fact("ppo_mini_batch_size")
        ran = fact is not None and fact.origin == "log"
        about = "one update takes the whole batch" if ran else "verl refuses this"
        found.append(
            Caveat(
                "mini_batch_larger",
                f"ppo_mini_batch_size is larger than train_batch_size: {about} (both count prompts)",
                _NOW,
                severe=not ran,
            )
        )
    return found


TRAINER = Trainer(
    "verl",
    "0.9.0",
    ("actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.ppo_mini_batch_size", "algorithm.adv_estimator",
     "data.train_batch_size", "actor_rollout_ref.model.path", "actor_rollout_ref.actor.optim.lr",
     "trainer.total_epochs", "actor_rollout_ref.actor.use_kl_loss"),
    KEYS,
    read,
    step_unit="rollout cycle",
    order=20,
)  # fmt: skip


@register_trainer("verl")
def verl() -> Trainer:
    """verl."""
    return TRAINER
