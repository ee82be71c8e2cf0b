"""AReaL: rollouts up to `max_head_offpolicyness` versions ahead; one version is one batch in minibatches."""

from bandit_lab.runs.trainers import staleness
from bandit_lab.runs.trainers.base import AdvantageRule, Age, Default, Key, Lookup, Trainer, TrainerReading
from bandit_lab.runs.trainers.registry import register_trainer

_NOW = "AReaL 1.0.4 areal/api/cli_args.py"

KEYS = (
    Key("group_size", ("gconfig.n_samples", "n_samples"), (Default(1, _NOW),)),
    Key("learning_rate", ("actor.optimizer.lr",), (Default(1e-3, _NOW),)),
    Key("beta1", ("actor.optimizer.beta1",), (Default(0.9, _NOW),)),
    Key("beta2", ("actor.optimizer.beta2",), (Default(0.999, _NOW),)),
    Key("weight_decay", ("actor.optimizer.weight_decay",), (Default(0.01, _NOW),)),
    Key("optimizer", ("actor.optimizer.type",), (Default("adam", _NOW),)),
    Key("kl_weight", ("actor.kl_ctl",), (Default(0.1, _NOW),)),
    Key("kl_estimator", ("actor.kl_estimator",), (Default("k1", _NOW),)),
    Key("clip_low", ("actor.eps_clip",), (Default(0.2, _NOW),)),
    Key("clip_high", ("actor.eps_clip_higher", "actor.eps_clip"), (Default(0.2, _NOW),)),
    Key("mean_level", ("actor.reward_norm.mean_level", "actor.adv_norm.mean_level")),
    Key("std_level", ("actor.reward_norm.std_level", "actor.adv_norm.std_level")),
    Key("leave_one_out", ("actor.reward_norm.mean_leave1out",), (Default(False, _NOW),)),
    Key("batch_size", ("train_dataset.batch_size", "rollout.consumer_batch_size"), (), "counts prompts"),
    Key("ppo_n_minibatches", ("actor.ppo_n_minibatches", "ppo_n_minibatches"), (Default(4, _NOW),)),
    Key("max_head_offpolicyness", ("rollout.max_head_offpolicyness", "max_head_offpolicyness"), (Default(0, _NOW),)),
)


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage and KL of an AReaL configuration."""
    weight = look.number("kl_weight") or 0.0
    kl = f"{look.value('kl_estimator')} in the reward" if weight else "off"
    prompts, batches = look.number("batch_size", 1), look.number("ppo_n_minibatches", 1) or 1
    return TrainerReading(_loop(look), _rule(look), kl, weight, (), None if prompts is None else prompts / batches)


def _loop(look: Lookup) -> Age:
    names = ("ppo_n_minibatches", "max_head_offpolicyness")
    return staleness.cycles(
        look.number("ppo_n_minibatches", 1) or 1,
        int(look.number("max_head_offpolicyness") or 0),
        "ppo_n_minibatches",
        staleness.needed({name: look.fact(name) for name in names}, "AReaL"),
        ("rollout.max_head_offpolicyness", "actor.ppo_n_minibatches"),
        "AReaL 1.0.4 staleness_manager: at most max_head_offpolicyness versions behind; a version is one batch, which "
        "is trained on in ppo_n_minibatches steps",
    )


def _rule(look: Lookup) -> AdvantageRule:
    mean, std = look.value("mean_level"), look.value("std_level")
    source = f"{_NOW} (reward_norm: mean_level={mean}, std_level={std})"
    if mean != "group":
        return AdvantageRule(None, "no mean of the group is taken off the reward", "none", source=source)
    others = look.value("leave_one_out") is True
    base = "the mean of the others of the group" if others else "the group's mean"
    if std == "group":
        return AdvantageRule("grpo", f"reward minus {base}, over the group's std", "group", 1, 1e-5, source)
    if std == "batch":
        return AdvantageRule("grpo", f"reward minus {base}, over the std of the whole batch", "batch", 1, 1e-5, source)
    return AdvantageRule("rloo" if others else "dr_grpo", f"reward minus {base}", "none", source=source)


TRAINER = Trainer(
    "AReaL",
    "1.0.4",
    ("max_head_offpolicyness", "ppo_n_minibatches", "gconfig.n_samples", "rollout.consumer_batch_size",
     "use_decoupled_loss", "actor.kl_ctl", "actor.reward_norm.mean_level", "actor.optimizer.lr"),
    KEYS,
    read,
    step_unit="rollout cycle",
    aside="written from its source and example files; no real configuration or log has confirmed it",
    order=70,
)  # fmt: skip


@register_trainer("areal")
def areal() -> Trainer:
    """AReaL."""
    return TRAINER
