"""The settings of `advise`: whose configuration, which log, what is known, what is wished for."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.settings.schema import LEARNER, OUTPUT, PROBLEM, RUN, RunSettings, setting


@dataclass
class AdviseSettings(RunSettings):
    """Settings of `advise`."""

    paths: list[str] = setting(
        [], "paths", "a configuration and a log; plain arguments: the log is what holds rewards", PROBLEM
    )
    config: str | None = setting(
        None,
        "path",
        "the trainer's configuration: YAML, JSON, TOML, a shell or Python script, or a run's folder",
        PROBLEM,
    )
    log: str | None = setting(None, "path", "the run's log, in any format that fit reads", PROBLEM)
    options: dict[str, Any] = setting(
        {}, "", "further settings in the trainer's words: options.num_iterations=4", PROBLEM
    )
    framework: str | None = setting(
        None, "", "trl | verl | openrlhf | nemo_rl | prime_rl | open_instruct | own_loop; null: by the keys", PROBLEM
    )
    version: str | None = setting(None, "", "release of the trainer, for defaults that changed: version=0.17", PROBLEM)
    learning_rate: float | None = setting(None, "", "eta; null: of the configuration", LEARNER)
    momentum: float | None = setting(None, "", "mu (Adam: beta1); null: of the configuration", LEARNER)
    optimizer_name: str | None = setting(
        None, "", "adamw | adam | sgd | nesterov | rmsprop; null: of the configuration", LEARNER
    )
    staleness_model: str | None = setting(
        None, "", "refresh (model A) | lag (B) | pipeline (C); null: as the configuration implies", LEARNER
    )
    refresh_interval: int | None = setting(
        None, "optimiser steps", "N >= 1 (lag: the lag >= 0); null: K_ref as the trainer implements it", LEARNER
    )
    group_size: int | None = setting(None, "answers", "G; null: of the configuration", LEARNER)
    kl_weight: float | None = setting(None, "", "beta; null: of the configuration", LEARNER)
    stiffness: float | None = setting(
        None,
        "reward per logit^2 (sgd); 1 per unit of learning rate (Adam)",
        "largest stiffness; null: from the log, else a table over response times",
        LEARNER,
    )
    delay: float | None = setting(
        None, "optimiser steps", "response time of the reward, read off a curve; instead of stiffness or log", LEARNER
    )
    success: float | None = setting(None, "", "success probability p of 0/1 rewards; null: from the log", LEARNER)
    safety: float = setting(2.0, "", "margin that counts as safe, > 1", RUN)
    signal: float = setting(0.9, "", "wanted share of groups that are not silent", RUN)
    group_factor: float = setting(0.9, "", "wanted share of the gradient that an infinite group would give, c_G", RUN)
    temperature: float = setting(0.5, "", "wanted noise variance over today's", RUN)
    reward_key: str | None = setting(None, "", "column of the log to read as the reward")
    step_key: str | None = setting(None, "", "column of the log to read as the step")
    where: Any = setting(None, "", "rows of the log that count: where=type=rollout")
    run: str | None = setting(None, "", "one run of several in the log: its name or a part that no other has")
    reward_scale: list[float] | None = setting(None, "reward", "[lowest, highest] possible; null: estimated")
    step_unit: str | None = setting(
        None, "", "what the log counts: optimiser_step | rollout_cycle; null: as the trainer"
    )
    log_every: int | None = setting(None, "optimiser steps", "per logged row, where the log does not tell")
    report: bool = setting(True, "", "write report/advice.html, .md and .png, ready to paste into an issue", OUTPUT)
    seed: int = setting(0, "", "recorded; nothing here is random", RUN)
