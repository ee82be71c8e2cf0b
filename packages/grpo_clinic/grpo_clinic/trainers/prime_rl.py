"""prime-rl: always asynchronous, one optimiser step per batch."""

from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import AdvantageRule, Age, Caveat, Default, Key, Lookup, Trainer, TrainerReading
from grpo_clinic.trainers.registry import register_trainer

_NOW = "prime-rl main (2026)"

KEYS = (
    Key("group_size", ("orchestrator.train.group_size", "group_size", "rollouts_per_example"), (Default(1, _NOW),)),
    Key("learning_rate", ("optim.lr", "trainer.optim.lr"), (Default(1e-6, _NOW),)),
    Key("beta1", ("optim.betas1",), (Default(0.9, _NOW),)),
    Key("beta2", ("optim.betas2",), (Default(0.999, _NOW),)),
    Key("weight_decay", ("optim.weight_decay",), (Default(0.01, _NOW),)),
    Key("optimizer", ("optim.type",), (Default("adamw", _NOW),)),
    Key("kl_weight", ("loss.kl_tau", "kl_tau"), (Default(1e-3, _NOW),)),
    Key("clip_low", ("loss.dppo_mask_low", "dppo_mask_low"), (Default(0.2, _NOW),)),
    Key("clip_high", ("loss.dppo_mask_high", "dppo_mask_high"), (Default(0.2, _NOW),)),
    Key("batch_size", ("batch_size", "orchestrator.batch_size")),
    Key("max_off_policy_steps", ("max_off_policy_steps",), (Default(8, _NOW),)),
)


def read(look: Lookup) -> TrainerReading:
    """Staleness, advantage and KL of a prime-rl configuration."""
    size, batch = look.number("group_size", 1) or 1, look.number("batch_size", 1)
    traps: tuple[Caveat, ...] = ()
    if size == 1:
        text = "group_size is 1 (the default): the group's mean is the reward itself, so every advantage is zero"
        traps = (Caveat("no_group", text, _NOW, severe=True),)
    rule = AdvantageRule("dr_grpo", "reward minus the group's mean", "none", source=_NOW)
    weight = look.number("kl_weight") or 0.0
    kl = "squared log-ratio to the rollout policy (kl_tau), not to a reference" if weight else "off"
    return TrainerReading(_loop(look), rule, kl, weight, traps, None if batch is None else batch / size)


def _loop(look: Lookup) -> Age:
    oldest = look.number("max_off_policy_steps") or 0.0
    return staleness.at_most(
        int(oldest),
        1.0,
        "largest age max_off_policy_steps",
        staleness.needed({"max_off_policy_steps": look.fact("max_off_policy_steps")}, "prime-rl"),
        ("max_off_policy_steps",),
        f"{_NOW}: rollouts begun more than max_off_policy_steps policies ago are dropped",
    )


TRAINER = Trainer(
    "prime-rl",
    "main (2026)",
    ("max_off_policy_steps", "max_async_level", "rollouts_per_example", "orchestrator.batch_size", "loss.kl_tau",
     "dppo_mask_low", "trainer.optim.lr"),
    KEYS,
    read,
    aside="checked on four of its own example files and on the defaults of its orchestrator and losses",
    order=50,
)  # fmt: skip


@register_trainer("prime_rl")
def prime_rl() -> Trainer:
    """prime-rl."""
    return TRAINER
