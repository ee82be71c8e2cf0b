"""The settings that say which logs are read, and how: shared by the commands that work on logs."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.settings.schema import LEARNER, PROBLEM, RUN, RunSettings, setting

TEXTS = ("reward_key", "step_key", "eval_key", "eval_path", "where", "run", "logs_index", "run_dir", "config", "log",
         "version", "page",
         "alarms", "on_alarm")  # fmt: skip
"""Settings whose value is text as it stands, whatever it holds."""


@dataclass
class LogSettings(RunSettings):
    """Which logs, and how they are read."""

    paths: list[str] = setting([], "paths", "log files and folders; any argument that is a path counts as one", PROBLEM)
    logs_index: str | None = setting(
        None,
        "path",
        "CSV, a run per row: file, and if needed selector, reward_key, eval_curve, outcome, G, K_ref, ...",
        PROBLEM,
    )
    reward_key: str | None = setting(None, "", "column to read as the reward; null: the trainer's known names")
    step_key: str | None = setting(None, "", "column to read as the step")
    eval_key: str | None = setting(None, "", "column to read as the held-out result")
    eval_path: str | None = setting(
        None,
        "path",
        "file with the held-out results of the run, joined by step (eval_path=my_run/eval_history.json)",
        RUN,
    )
    where: Any = setting(None, "", "rows that count: where=type=rollout (several: type=rollout,seed=3)")
    run: str | None = setting(None, "", "one run of several in a file: its name or a part that no other has")
    beside: list[str] = setting([], "paths", "further files of the same run: columns that the log lacks")
    reward_scale: list[float] | None = setting(None, "reward", "[lowest, highest] possible; null: estimated")
    step_unit: str | None = setting(
        None, "", "what the log counts: optimiser_step (TRL) | rollout_cycle (verl); null: as the trainer does"
    )
    convert_to: str | None = setting(None, "", "optimiser_step | rollout_cycle: report in these (refresh_interval=...)")
    refresh_interval: float | None = setting(
        None, "steps", "optimiser steps per rollout cycle, K_ref of the trainer", LEARNER
    )
    group_size: int | None = setting(None, "answers", "G of the trainer, for what the log alone does not tell", LEARNER)
    log_every: int | None = setting(None, "optimiser steps", "per logged row, where the log does not tell")
    thin: bool = setting(True, "", "take the copies out of forward-filled columns")
