"""TRL: `GRPOTrainer`, and the experimental `AsyncGRPOTrainer`."""

from grpo_clinic.trainers import staleness
from grpo_clinic.trainers.base import (
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
from grpo_clinic.trainers.registry import register_trainer

_NOW, _HF = "TRL 1.9.0 GRPOConfig", "transformers TrainingArguments (TRL 1.9.0)"
_ASYNC = "TRL main (1.10.0.dev0) AsyncGRPOConfig"

KEYS = (
    Key("group_size", ("num_generations",), (Default(8, _NOW),)),
    Key("learning_rate", ("learning_rate",), (Default(1e-6, _NOW),)),
    Key("beta1", ("adam_beta1",), (Default(0.9, _HF),), "Unsloth's notebooks set adam_beta2 to 0.99"),
    Key("beta2", ("adam_beta2",), (Default(0.999, _HF),)),
    Key("weight_decay", ("weight_decay",), (Default(0.0, _HF),)),
    Key("optimizer", ("optim",), (Default("adamw_torch", _HF),)),
    Key("momentum", ("optim_args.momentum",)),
    Key("kl_weight", ("beta",), (Default(0.0, _NOW, since="0.19"), Default(0.04, "TRL 0.14 to 0.18", until="0.18"))),
    Key("clip_low", ("epsilon",), (Default(0.2, _NOW),)),
    Key("clip_high", ("epsilon_high",)),
    Key("num_iterations", ("num_iterations",), (Default(1, _NOW),)),
    Key("gradient_accumulation_steps", ("gradient_accumulation_steps",), (Default(1, _HF),)),
    Key("steps_per_generation", ("steps_per_generation",), (), "counts micro-steps, not optimiser steps"),
    Key("generation_batch_size", ("generation_batch_size",)),
    Key("per_device_train_batch_size", ("per_device_train_batch_size",), (Default(8, _HF),)),
    Key("processes", ("num_processes", "world_size", "processes")),
    Key("scale_rewards", ("scale_rewards",),
        (Default("group", _NOW, since="0.22"), Default(True, "TRL 0.16 to 0.21", until="0.21"))),
    Key("loss_type", ("loss_type",),
        (Default("dapo", _NOW, since="0.22"), Default("bnpo", "TRL 0.16 to 0.21", since="0.16", until="0.21"),
         Default("grpo", "TRL 0.14 and 0.15, which have no such key", until="0.15"))),
    Key("max_staleness", ("max_staleness",)),
    Key("weight_sync_steps", ("weight_sync_steps",)),
)  # fmt: skip
"""Defaults as the released packages have them: 0.14.0, 0.15.2, 0.16.1, 0.17.0, 0.18.0, 0.19.0 to 0.24.0 and 1.16.0."""


def read(look: Lookup) -> TrainerReading:
    """K_ref, staleness, advantage, KL and traps of a GRPOConfig."""
    loop = _asynchronous(look) if _is_asynchronous(look) else _synchronous(look)
    weight = look.number("kl_weight")
    rule = _rule(look)
    where = "k3 estimator in the loss" if weight else "off: no reference model is loaded and 'kl' is not logged"
    where = where if look.has("kl_weight") else f"assumed {where}" if not weight else where
    return TrainerReading(loop, rule, where, weight, _traps(look, rule), _prompts(look))


def _is_asynchronous(look: Lookup) -> bool:
    return look.has("max_staleness") or look.has("weight_sync_steps")


def _synchronous(look: Lookup) -> Age:
    terms = {"num_iterations": look.fact("num_iterations"), "steps_per_generation": _micro_steps(look)}
    terms["gradient_accumulation_steps"] = look.fact("gradient_accumulation_steps")
    known = staleness.needed(terms, "TRL")
    iterations, micro = look.number("num_iterations", 1), float(known["steps_per_generation"].value)
    block = micro * float(iterations or 1) / float(look.number("gradient_accumulation_steps", 1) or 1)
    return staleness.cycles(
        block,
        0,
        "steps_per_generation * num_iterations / gradient_accumulation_steps",
        known,
        ("num_iterations", "steps_per_generation"),
        "TRL 1.9.0 GRPOTrainer: a batch of generations serves steps_per_generation * num_iterations micro-steps",
    )


def _micro_steps(look: Lookup) -> Fact | None:
    """`steps_per_generation`, or what it is worked out from."""
    given, batch = look.fact("steps_per_generation"), look.fact("generation_batch_size")
    if given is not None:
        look.number("steps_per_generation", 1)
        return given
    if batch is None or "refresh_interval" in look.given:
        look.number("gradient_accumulation_steps", 1)
        steps = look.fact("gradient_accumulation_steps")
        source = f"TRL 1.9.0: steps_per_generation is gradient_accumulation_steps = {steps and steps.value}"
        return None if steps is None else Fact(steps.value, "worked out", "steps_per_generation", source)
    device, processes = look.number("per_device_train_batch_size", 1), look.number("processes", 1)
    if processes is None or device is None:
        raise ValueError(
            "config: expected steps_per_generation, or the number of processes beside generation_batch_size (give "
            "options.processes=...), got generation_batch_size alone"
        )
    worked_out = max((look.number("generation_batch_size", 1) or 1) / (device * processes), 1.0)
    source = "generation_batch_size / (per_device_train_batch_size * processes), TRL 1.9.0 GRPOConfig"
    return Fact(worked_out, "worked out", "steps_per_generation", source)


def _asynchronous(look: Lookup) -> Age:
    oldest = look.fact("max_staleness") or Fact(4, "default", "max_staleness", _ASYNC)
    every = look.fact("weight_sync_steps") or Fact(1, "default", "weight_sync_steps", _ASYNC)
    look.number("max_staleness")
    sync = int(look.number("weight_sync_steps", 1) or every.value)
    return staleness.at_most(
        int(oldest.value) * sync + sync - 1,
        float(sync),
        "largest age max_staleness * weight_sync_steps + weight_sync_steps - 1",
        {"max_staleness": oldest, "weight_sync_steps": every},
        ("max_staleness", "weight_sync_steps"),
        f"{_ASYNC}: samples more than max_staleness weight updates behind are dropped",
    )


def _rule(look: Lookup) -> AdvantageRule:
    given, loss = look.value("scale_rewards"), look.value("loss_type")
    scale = {True: "group", False: "none"}.get(given, given) if isinstance(given, bool) else str(given)
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale_rewards: expected group, batch, none, true or false, got {given!r}")
    source = f"TRL 1.9.0 (scale_rewards={scale}, loss_type={loss})"
    if scale == "none":
        return AdvantageRule("dr_grpo", "reward minus the group's mean, not divided by a std", "none", source=source)
    if scale == "batch":
        text = "reward minus the group's mean, over the std of the whole batch (+ 1e-4)"
        return AdvantageRule("grpo", text, "batch", 1, 1e-4, source)
    text = "reward minus the group's mean, over the group's std (torch.std, n - 1; + 1e-4)"
    return AdvantageRule("grpo", text, "group", 1, 1e-4, source)


def _prompts(look: Lookup) -> float | None:
    """Prompts per optimiser step, where the number of processes is known or follows from the batch sizes."""
    size, steps = look.number("group_size", 1) or 1, look.number("gradient_accumulation_steps", 1) or 1
    batch, micro = look.number("generation_batch_size", 1), look.number("steps_per_generation", 1)
    if batch is not None and micro is not None:
        return batch / micro * steps / size
    processes, device = look.number("processes", 1), look.number("per_device_train_batch_size", 1) or 1
    return None if processes is None else device * steps * processes / size


def _traps(look: Lookup, rule: AdvantageRule) -> tuple[Caveat, ...]:
    found = [
        Caveat(
            "reward_std",
            "the logged 'reward_std' is the mean within-group std up to v0.24 and the std of the whole batch from v1.0 "
            "(nan-aware from 1.6): in a new log it says nothing about silent groups, frac_reward_zero_std does",
            "TRL 0.24, 1.0, 1.6",
        )
    ]
    if rule.std == "batch":
        found.append(
            Caveat(
                "zero_std_of_batch",
                "with scale_rewards='batch' the logged frac_reward_zero_std looks at the std of the batch: it does not "
                "count silent groups",
                "TRL 1.9.0",
            )
        )
    if not look.has("kl_weight") and not _is_asynchronous(look):
        found.append(
            Caveat(
                "kl_default",
                "'beta' is not given: its default is 0.0 since v0.19 and was 0.04 up to v0.18 (give version=...)",
                "TRL 0.18, 0.19",
            )
        )
    return tuple(found)


TRAINER = Trainer(
    "TRL",
    "1.9.0",
    ("num_generations", "num_iterations", "steps_per_generation", "scale_rewards", "adam_beta1", "loss_type",
     "generation_batch_size", "max_completion_length", "use_vllm", "per_device_train_batch_size",
     "gradient_accumulation_steps"),
    KEYS,
    read,
    step_unit="optimiser step",
    order=10,
)  # fmt: skip


@register_trainer("trl")
def trl() -> Trainer:
    """TRL."""
    return TRAINER
