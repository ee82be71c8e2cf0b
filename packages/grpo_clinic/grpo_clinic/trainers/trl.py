"""TRL: `GRPOTrainer`; of the experimental `AsyncGRPOTrainer` the bound on ages alone."""

from grpo_clinic.trainers.recipe import Key, Settings, Trainer, Trap

_NOW, _HF = "TRL 1.9.0 GRPOConfig", "transformers TrainingArguments (TRL 1.9.0)"

_KEYS = {
    "group_size": Key(("num_generations",), 8, _NOW),
    "kl_weight": Key(("beta",), 0.0, _NOW),
    "num_iterations": Key(("num_iterations",), 1, _NOW),
    "gradient_accumulation_steps": Key(("gradient_accumulation_steps",), 1, _HF),
    "steps_per_generation": Key(("steps_per_generation",)),
    "generation_batch_size": Key(("generation_batch_size",)),
    "per_device_train_batch_size": Key(("per_device_train_batch_size",), 8, _HF),
    "processes": Key(("num_processes", "world_size", "processes")),
    "scale_rewards": Key(("scale_rewards",), "group", _NOW),
    "max_staleness": Key(("max_staleness",)),
    "weight_sync_steps": Key(("weight_sync_steps",)),
}


def _asynchronous(look: Settings) -> bool:
    return look.given("max_staleness") is not None or look.given("weight_sync_steps") is not None


def _block(look: Settings) -> float | None:
    """steps_per_generation * num_iterations / gradient_accumulation_steps."""
    if _asynchronous(look):
        return None
    accumulated = look.at_least_one("gradient_accumulation_steps")
    micro, batch = look.number("steps_per_generation"), look.number("generation_batch_size")
    if micro is None and batch is not None:
        processes = look.number("processes")
        if processes is None:
            return None
        micro = max(batch / (look.at_least_one("per_device_train_batch_size") * processes), 1.0)
    return (accumulated if micro is None else micro) * look.at_least_one("num_iterations") / accumulated


def _traps(look: Settings) -> list[Trap]:
    given = look.value("scale_rewards")
    scale = {True: "group", False: "none"}[given] if isinstance(given, bool) else given
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale_rewards: expected group, batch, none, true or false, got {given!r}")
    traps = [
        Trap(
            "reward_std",
            "the logged 'reward_std' is the mean within-group std up to v0.24 and the std of the whole batch from v1.0 "
            "(nan-aware from 1.6): in a new log it says nothing about silent groups, frac_reward_zero_std does",
            "TRL 0.24, 1.0, 1.6",
        )
    ]
    if scale == "batch":
        text = (
            "with scale_rewards='batch' the logged frac_reward_zero_std looks at the std of the batch: it does not "
            "count silent groups"
        )
        traps.append(Trap("zero_std_of_batch", text, "TRL 1.9.0"))
    if look.given("kl_weight") is None and not _asynchronous(look):
        text = "'beta' is not given: its default is 0.0 since v0.19 and was 0.04 up to v0.18"
        traps.append(Trap("kl_default", text, "TRL 0.18, 0.19"))
    return traps


TRL = Trainer(
    "TRL",
    "1.9.0",
    ("num_generations", "num_iterations", "steps_per_generation", "scale_rewards", "adam_beta1", "loss_type",
     "generation_batch_size", "max_completion_length", "use_vllm", "per_device_train_batch_size",
     "gradient_accumulation_steps"),
    _KEYS,
    _block,
    ("num_iterations", "steps_per_generation", "gradient_accumulation_steps", "generation_batch_size"),
    _traps,
    step_unit="optimiser step",
)  # fmt: skip
