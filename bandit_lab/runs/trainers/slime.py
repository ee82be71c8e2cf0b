"""slime: `train.py` is synchronous; `train_async.py` is one batch of rollouts behind, more with a longer interval."""

from bandit_lab.runs.trainers import staleness
from bandit_lab.runs.trainers.base import (
    AdvantageRule,
    Age,
    Caveat,
    Default,
    Fact,
    Key,
    Lookup,
    Trainer,
    TrainerReading,
)
from bandit_lab.runs.trainers.registry import register_trainer

_NOW = "slime 0.3.1 (2026-08-21) slime/utils/arguments.py"
_MEGATRON = "Megatron-LM, as slime 0.3.1 calls it"

KEYS = (
    Key("group_size", ("n_samples_per_prompt",), (Default(1, _NOW),)),
    Key("learning_rate", ("lr",), (Default(1e-6, _NOW),)),
    Key("beta1", ("adam_beta1",), (Default(0.9, _MEGATRON),)),
    Key("beta2", ("adam_beta2",), (Default(0.999, _MEGATRON),), "its scripts set 0.98"),
    Key("weight_decay", ("weight_decay",), (Default(0.01, _MEGATRON),)),
    Key("optimizer", ("optimizer",), (Default("adam", _MEGATRON),)),
    Key("use_kl_loss", ("use_kl_loss",), (Default(False, _NOW),)),
    Key("kl_loss_coef", ("kl_loss_coef",), (Default(0.0, _NOW),)),
    Key("kl_loss_type", ("kl_loss_type",), (Default("k1", _NOW),)),
    Key("kl_coef", ("kl_coef",), (Default(0.0, _NOW),), "in the reward"),
    Key("clip_low", ("eps_clip",), (Default(0.2, _NOW),)),
    Key("clip_high", ("eps_clip_high", "eps_clip"), (Default(0.2, _NOW),)),
    Key("advantage_estimator", ("advantage_estimator",), (Default("grpo", _NOW),)),
    Key("plain", ("disable_grpo_std_normalization",), (Default(False, _NOW),)),
    Key("rollout_batch_size", ("rollout_batch_size",), (), "counts prompts"),
    Key("global_batch_size", ("global_batch_size",), (), "counts answers"),
    Key("num_steps_per_rollout", ("num_steps_per_rollout",)),
    Key("update_weights_interval", ("update_weights_interval",), (Default(1, _NOW),), "read by train_async.py alone"),
    Key("colocate", ("colocate",), (Default(False, _NOW),), "train_async.py refuses it"),
    Key("program", ("program",)),
)


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage and KL of a slime command line."""
    parts, weight = [], look.number("kl_coef") or 0.0
    parts += ["in the reward"] if weight else []
    if look.value("use_kl_loss") is True and (look.number("kl_loss_coef") or 0.0) > 0:
        weight += look.number("kl_loss_coef") or 0.0
        parts.append(f"in the loss, kl_loss_type={look.value('kl_loss_type')}")
    rule, traps = _rule(look)
    answers, size = look.number("global_batch_size", 1), look.number("group_size", 1) or 1
    return TrainerReading(
        _loop(look), rule, "; ".join(parts) or "off", weight, traps, None if answers is None else answers / size
    )


def _loop(look: Lookup) -> Age:
    names = ("rollout_batch_size", "group_size", "global_batch_size")
    if look.has("num_steps_per_rollout") or not all(look.has(name) for name in (names[0], names[2])):
        steps = look.fact("num_steps_per_rollout") or Fact(1, "default", "num_steps_per_rollout", f"assumed; {_NOW}")
        block, terms = look.number("num_steps_per_rollout", 1) or 1.0, {"num_steps_per_rollout": steps}
        formula = "num_steps_per_rollout"
    else:
        prompts, size, answers = (look.number(name, 1) or 1 for name in names)
        block, terms = prompts * size / answers, staleness.needed({name: look.fact(name) for name in names}, "slime")
        formula = "rollout_batch_size * n_samples_per_prompt / global_batch_size"
    late = "async" in str(look.value("program")) or look.has("update_weights_interval")
    late = late and look.value("colocate") is not True
    interval = look.fact("update_weights_interval")
    if late and interval is not None:
        terms = {**terms, "update_weights_interval": interval}
    return staleness.cycles(
        block,
        int(look.number("update_weights_interval", 1) or 1) if late else 0,
        formula,
        terms,
        ("num_steps_per_rollout", *(("update_weights_interval",) if late else ())),
        "slime 0.3.1 train_async.py: the next rollout begins before training on this one, and weights go over every "
        "update_weights_interval rollouts",
    )


def _rule(look: Lookup) -> tuple[AdvantageRule, tuple[Caveat, ...]]:
    estimator = str(look.value("advantage_estimator"))
    source = f"{_NOW} (advantage_estimator={estimator})"
    if estimator in ("grpo", "gspo", "cispo"):
        if look.value("plain") is True:
            return AdvantageRule("dr_grpo", "reward minus the group's mean", "none", source=source), ()
        return AdvantageRule("grpo", "reward minus the group's mean, over its std", "group", 1, 1e-6, source), ()
    text = f"the advantage estimator is {estimator}: what is said of groups does not apply"
    return AdvantageRule(None, text, "none", source=source), (Caveat("not_grpo", text, source),)


TRAINER = Trainer(
    "slime",
    "0.3.1",
    ("num_steps_per_rollout", "update_weights_interval", "use_tis", "hf_checkpoint", "rm_type", "num_rollout",
     "rollout_max_response_len", "n_samples_per_eval_prompt", "ref_load", "max_tokens_per_gpu"),
    KEYS,
    read,
    aside="written from its source and example scripts; no real configuration or log has confirmed it",
    order=90,
)  # fmt: skip


@register_trainer("slime")
def slime() -> Trainer:
    """slime."""
    return TRAINER
