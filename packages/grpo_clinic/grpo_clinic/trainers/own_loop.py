"""Any other loop, in this project's own words (and the commonest others)."""

from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import AdvantageRule, Age, Default, Fact, Key, Lookup, Trainer, TrainerReading
from grpo_clinic.trainers.registry import register_trainer

_TORCH = "torch.optim.AdamW"

KEYS = (
    Key("group_size", ("group_size", "num_generations", "rollouts_per_prompt", "G")),
    Key("learning_rate", ("learning_rate", "lr")),
    Key("beta1", ("momentum", "beta1", "adam_beta1"), (Default(0.9, _TORCH),)),
    Key("beta2", ("beta2", "adam_beta2"), (Default(0.999, _TORCH),)),
    Key("weight_decay", ("weight_decay",)),
    Key("optimizer", ("optimizer", "optim"), (Default("adamw", "assumed"),)),
    Key("kl_weight", ("kl_weight", "kl_coef", "kl_beta")),
    Key("clip_low", ("clip_eps", "cliprange", "clip_ratio")),
    Key("clip_high", ("clip_eps_high", "clip_eps", "cliprange", "clip_ratio")),
    Key("refresh_interval", ("refresh_interval", "optimizer_steps_per_rollout", "optimizer_updates_per_rollout_batch")),
    Key("epochs", ("epochs_per_rollout_batch", "ppo_epochs", "num_iterations", "inner_epochs")),
    Key("prompts", ("prompts", "prompts_per_step", "num_prompts")),
    Key("rollout_batch_size", ("rollout_batch_size",)),
    Key("train_batch_size", ("train_batch_size",)),
)


def read(look: Lookup) -> TrainerReading:
    """K_ref from the settings that there are, 1 otherwise (and said)."""
    weight = look.number("kl_weight")
    rule = AdvantageRule(
        "grpo", "reward minus the group's mean, over the group's std (assumed)", "group", 0, 0.0, "assumed"
    )
    return TrainerReading(
        _loop(look), rule, "not known" if weight is None else "as given", weight, (), look.number("prompts", 1)
    )


def _loop(look: Lookup) -> Age:
    given = None if "refresh_interval" in look.given else look.fact("refresh_interval")
    if given is not None:
        block = look.number("refresh_interval", 1) or 1
        return staleness.cycles(block, 0, "as given", {"refresh_interval": given}, ("refresh_interval",), "given")
    epochs = look.fact("epochs")
    rollout, train = look.fact("rollout_batch_size"), look.fact("train_batch_size")
    if rollout is not None and train is not None:
        terms = {"epochs": epochs or Fact(1, "default", "epochs", "assumed"), "rollout_batch_size": rollout}
        terms["train_batch_size"] = train
        batches = (look.number("rollout_batch_size", 1) or 1) / (look.number("train_batch_size", 1) or 1)
        block = (look.number("epochs", 1) or 1) * max(batches, 1.0)
        formula = "epochs * rollout_batch_size / train_batch_size"
        return staleness.cycles(block, 0, formula, terms, tuple(fact.key for fact in terms.values()), "by their names")
    if epochs is not None:
        block = look.number("epochs", 1) or 1
        return staleness.cycles(block, 0, "epochs", {"epochs": epochs}, (epochs.key,), "by its name")
    assumed = {"refresh_interval": Fact(1, "default", "refresh_interval", "assumed")}
    return staleness.cycles(1.0, 0, "1 (nothing tells otherwise)", assumed, ("refresh_interval",), "assumed")


TRAINER = Trainer("own loop", "", (), KEYS, read, order=100)


@register_trainer("own_loop")
def own_loop() -> Trainer:
    """Any other loop."""
    return TRAINER
