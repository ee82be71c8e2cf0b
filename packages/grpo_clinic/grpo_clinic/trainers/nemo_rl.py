"""NeMo-RL 0.6."""

import math

from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import (
    AdvantageRule,
    Age,
    Default,
    Key,
    Lookup,
    Trainer,
    TrainerReading,
    split_betas,
)
from grpo_clinic.trainers.registry import register_trainer

_EXAMPLE = "NeMo-RL 0.6 examples/configs/grpo_math_1B.yaml"

KEYS = (
    Key("group_size", ("grpo.num_generations_per_prompt",), (Default(16, _EXAMPLE),)),
    Key(
        "learning_rate", ("policy.optimizer.kwargs.lr", "policy.megatron_cfg.optimizer.lr"), (Default(5e-6, _EXAMPLE),)
    ),
    Key("betas", ("policy.optimizer.kwargs.betas",), (Default([0.9, 0.999], _EXAMPLE),)),
    Key("weight_decay", ("policy.optimizer.kwargs.weight_decay",), (Default(0.01, _EXAMPLE),)),
    Key("optimizer", ("policy.optimizer.name",), (Default("torch.optim.AdamW", _EXAMPLE),)),
    Key("kl_weight", ("loss_fn.reference_policy_kl_penalty",), (Default(0.01, _EXAMPLE),)),
    Key("clip_low", ("loss_fn.ratio_clip_min",), (Default(0.2, _EXAMPLE),)),
    Key("clip_high", ("loss_fn.ratio_clip_max",), (Default(0.2, _EXAMPLE),)),
    Key("normalize_rewards", ("grpo.normalize_rewards",), (Default(True, _EXAMPLE),)),
    Key("leave_one_out", ("grpo.use_leave_one_out_baseline",), (Default(True, _EXAMPLE),)),
    Key("dynamic_sampling", ("grpo.use_dynamic_sampling",), (Default(False, _EXAMPLE),)),
    Key("num_prompts_per_step", ("grpo.num_prompts_per_step",), (Default(32, _EXAMPLE),)),
    Key("train_global_batch_size", ("policy.train_global_batch_size",), (Default(512, _EXAMPLE),), "counts answers"),
    Key("async_enabled", ("grpo.async_grpo.enabled",), (Default(False, _EXAMPLE),)),
    Key("max_trajectory_age_steps", ("grpo.async_grpo.max_trajectory_age_steps",), (Default(1, _EXAMPLE),)),
)


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage and KL of a NeMo-RL configuration."""
    split_betas(look)
    weight = look.number("kl_weight") or 0.0
    answers, size = look.number("train_global_batch_size", 1), look.number("group_size", 1)
    kl = "k3 estimator in the loss" if weight else "off"
    return TrainerReading(_loop(look), _rule(look), kl, weight, (), (answers or 1) / (size or 1))


def _loop(look: Lookup) -> Age:
    names = ("num_prompts_per_step", "group_size", "train_global_batch_size")
    known = staleness.needed({name: look.fact(name) for name in names}, "NeMo-RL")
    prompts, size, batch = (look.number(name, 1) or 1 for name in names)
    late = look.value("async_enabled") is True
    behind = int(look.number("max_trajectory_age_steps", 1) or 1) if late else 0
    return staleness.cycles(
        float(math.ceil(prompts * size / batch - 1e-9)),
        behind,
        "ceil(num_prompts_per_step * num_generations_per_prompt / train_global_batch_size)",
        known,
        ("policy.train_global_batch_size", *(("grpo.async_grpo.max_trajectory_age_steps",) if behind else ())),
        "NeMo-RL 0.6: one pass over a step's answers in global batches; trajectories beyond the age are not used",
    )


def _rule(look: Lookup) -> AdvantageRule:
    scaled, others = look.value("normalize_rewards") is not False, look.value("leave_one_out") is True
    base = "the mean of the others of the group" if others else "the group's mean"
    source = "NeMo-RL 0.6 grpo (normalize_rewards, use_leave_one_out_baseline)"
    if not scaled:
        return AdvantageRule("rloo" if others else "dr_grpo", f"reward minus {base}", "none", source=source)
    drawn = ", silent groups drawn again" if look.value("dynamic_sampling") is True else ""
    return AdvantageRule(
        "dapo" if drawn else "grpo", f"reward minus {base}, over the group's std{drawn}", "group", 1, 1e-6, source
    )


TRAINER = Trainer(
    "NeMo-RL",
    "0.6",
    ("grpo.num_prompts_per_step", "grpo.num_generations_per_prompt", "grpo.normalize_rewards",
     "grpo.use_leave_one_out_baseline", "loss_fn.reference_policy_kl_penalty", "policy.train_global_batch_size",
     "loss_fn.ratio_clip_min"),
    KEYS,
    read,
    aside="the defaults are those of the example configuration; NeMo-RL itself has none",
    order=40,
)  # fmt: skip


@register_trainer("nemo_rl")
def nemo_rl() -> Trainer:
    """NeMo-RL."""
    return TRAINER
