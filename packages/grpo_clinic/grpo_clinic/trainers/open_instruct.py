"""open-instruct `grpo_fast`."""

from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import AdvantageRule, Age, Default, Key, Lookup, Trainer, TrainerReading
from grpo_clinic.trainers.registry import register_trainer

_NOW = "open-instruct main (2026)"

KEYS = (
    Key("group_size", ("num_samples_per_prompt_rollout",), (Default(4, _NOW),)),
    Key("learning_rate", ("learning_rate",), (Default(2e-5, _NOW),)),
    Key("beta1", ("adam_beta1",), (Default(0.9, "torch.optim.AdamW"),)),
    Key("beta2", ("adam_beta2",), (Default(0.999, "torch.optim.AdamW"),)),
    Key("weight_decay", ("weight_decay",), (Default(0.0, _NOW),)),
    Key("optimizer", ("optimizer",), (Default("adamw", _NOW),)),
    Key("kl_weight", ("beta",), (Default(0.05, _NOW),)),
    Key("kl_estimator", ("kl_estimator",), (Default("kl3", _NOW),)),
    Key("clip_low", ("clip_lower",), (Default(0.2, _NOW),)),
    Key("clip_high", ("clip_higher",), (Default(0.272, _NOW),)),
    Key("normalization", ("advantage_normalization_type",), (Default("centered", _NOW),)),
    Key("filter_zero_std_samples", ("filter_zero_std_samples",), (Default(True, _NOW),)),
    Key("num_unique_prompts_rollout", ("num_unique_prompts_rollout",), (Default(16, _NOW),)),
    Key("num_epochs", ("num_epochs",), (Default(1, _NOW),)),
    Key("num_mini_batches", ("num_mini_batches",), (Default(1, _NOW),)),
    Key("async_steps", ("async_steps",), (Default(8, _NOW),), "was 1 before"),
)


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage and KL of an open-instruct run."""
    weight = look.number("kl_weight") or 0.0
    dropped = look.value("filter_zero_std_samples") is not False
    scaled = str(look.value("normalization")) == "standard"
    text = "reward minus the group's mean" + (", over the group's std" if scaled else "")
    text += "; silent groups are left out" if dropped else ""
    name = "dr_grpo" if not scaled else "dapo" if dropped else "grpo"
    source = f"{_NOW} (advantage_normalization_type, filter_zero_std_samples)"
    rule = AdvantageRule(name, text, "group" if scaled else "none", 0, 1e-8 if scaled else 0.0, source)
    kl = f"{look.value('kl_estimator')} estimator in the loss" if weight else "off"
    mini = look.number("num_mini_batches", 1) or 1
    return TrainerReading(_loop(look), rule, kl, weight, (), (look.number("num_unique_prompts_rollout", 1) or 1) / mini)


def _loop(look: Lookup) -> Age:
    names = ("num_epochs", "num_mini_batches")
    known = staleness.needed({name: look.fact(name) for name in (*names, "async_steps")}, "open-instruct")
    epochs, batches = (look.number(name, 1) or 1 for name in names)
    return staleness.cycles(
        epochs * batches,
        int(look.number("async_steps") or 0),
        "num_epochs * num_mini_batches",
        known,
        ("num_epochs", "num_mini_batches", "async_steps"),
        f"{_NOW}: learns from a policy up to async_steps batches old; 0 is synchronous",
    )


TRAINER = Trainer(
    "open-instruct",
    "main (2026)",
    ("num_samples_per_prompt_rollout", "num_unique_prompts_rollout", "async_steps", "num_mini_batches",
     "advantage_normalization_type", "filter_zero_std_samples"),
    KEYS,
    read,
    order=60,
)  # fmt: skip


@register_trainer("open_instruct")
def open_instruct() -> Trainer:
    """open-instruct."""
    return TRAINER
