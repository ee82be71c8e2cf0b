"""The settings of `check`."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.settings.schema import LEARNER, PROBLEM, RUN, CompilingSettings, group, setting


@dataclass
class CheckSettings(CompilingSettings):
    """What is checked, and the learner that it is put into."""

    bandit: dict[str, Any] = group("k_arm", "checked if given, else what the others are checked on", PROBLEM)
    advantage: dict[str, Any] = group("grpo", "the same for the advantage")
    estimator: dict[str, Any] = group("ratio", "the same for the estimator")
    staleness: dict[str, Any] = group("refresh", "the same for the staleness model")
    optimizer: dict[str, Any] = group("sgd", "the same for the optimiser")
    kl_estimator: Any = group("exact", "the same for the KL estimator")
    diagnostic: str | None = setting(
        None, "", "a diagnostic that is checked, by its failure; on simulated logs", LEARNER
    )
    group_size: int = setting(
        4, "actions", "G of the learner; exact means of finite groups are summed over all groups", LEARNER
    )
    kl_weight: float = setting(1.0, "reward per nat", "beta of the learner", LEARNER)
    seed: int = setting(0, "", "root of all random numbers", RUN)
