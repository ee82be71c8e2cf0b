"""verl: the synchronous PPO trainer. Of its asynchronous ones no updates per batch are worked out."""

import math

from grpo_clinic.trainers.recipe import Key, Settings, Trainer, Trap

_NOW = "verl 0.9.0 ppo_trainer.yaml"
_ACTOR = "actor_rollout_ref.actor"

_KEYS = {
    "group_size": Key(("actor_rollout_ref.rollout.n", "rollout.n"), 1, _NOW),
    "use_kl_loss": Key((f"{_ACTOR}.use_kl_loss", "actor.use_kl_loss"), False, _NOW),
    "kl_loss_coef": Key((f"{_ACTOR}.kl_loss_coef", "actor.kl_loss_coef"), 0.001, _NOW),
    "adv_estimator": Key(("algorithm.adv_estimator",), "gae", _NOW),
    "train_batch_size": Key(("data.train_batch_size",), 1024, _NOW),
    "ppo_mini_batch_size": Key((f"{_ACTOR}.ppo_mini_batch_size", "actor.ppo_mini_batch_size"), 256, _NOW),
    "ppo_epochs": Key((f"{_ACTOR}.ppo_epochs", "actor.ppo_epochs"), 1, _NOW),
    "hybrid_engine": Key(("actor_rollout_ref.hybrid_engine",), True, _NOW),
    "staleness_threshold": Key(("async_training.staleness_threshold",)),
    "trainer_mode": Key(("trainer.v1.trainer_mode",)),
}


def _block(look: Settings) -> float | None:
    """ppo_epochs * ceil(train_batch_size / ppo_mini_batch_size)."""
    late = look.given("staleness_threshold") or look.value("hybrid_engine") is False
    if late or "async" in str(look.value("trainer_mode")):
        return None
    batch, mini = look.at_least_one("train_batch_size"), look.at_least_one("ppo_mini_batch_size")
    return look.at_least_one("ppo_epochs") * math.ceil(batch / mini - 1e-9)


def _traps(look: Settings) -> list[Trap]:
    traps = []
    estimator = str(look.value("adv_estimator")).rpartition(".")[2].lower()
    if estimator.startswith("grpo") and look.number("group_size") == 1:
        text = (
            "adv_estimator=grpo with rollout.n=1: the mean is set to 0 and the std to 1, so the advantage is the raw "
            "reward. There is no baseline, and nothing says so: set actor_rollout_ref.rollout.n to 4 or more"
        )
        traps.append(Trap("no_baseline", text, "verl 0.9.0 core_algos, compute_grpo_outcome_advantage"))
    if estimator == "gae":
        text = "adv_estimator is gae (the default): PPO with a critic, not GRPO; findings about groups do not apply"
        traps.append(Trap("not_grpo", text, _NOW))
    used = look.value("use_kl_loss") is True
    if look.given("kl_loss_coef") and not used and (look.number("kl_loss_coef", 0) or 0) > 0:
        text = "kl_loss_coef is set but use_kl_loss is not true: it has no effect"
        traps.append(Trap("kl_loss_off", text, _NOW))
    if look.at_least_one("ppo_mini_batch_size") > (look.number("train_batch_size", 0) or 0) > 0:
        about = "one update takes the whole batch" if look.in_log else "verl refuses this"
        text = f"ppo_mini_batch_size is larger than train_batch_size: {about} (both count prompts)"
        traps.append(Trap("mini_batch_larger", text, _NOW))
    return traps


VERL = Trainer(
    "verl",
    "0.9.0",
    ("actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.ppo_mini_batch_size", "algorithm.adv_estimator",
     "data.train_batch_size", "actor_rollout_ref.model.path", "actor_rollout_ref.actor.optim.lr",
     "trainer.total_epochs", "actor_rollout_ref.actor.use_kl_loss"),
    _KEYS,
    _block,
    ("ppo_epochs", "train_batch_size", "ppo_mini_batch_size"),
    _traps,
    step_unit="rollout cycle",
)  # fmt: skip
