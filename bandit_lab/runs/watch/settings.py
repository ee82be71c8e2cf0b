"""The settings of `watch`: what is followed, for how long, what an alarm does, what is shown."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.app.settings.schema import LEARNER, OUTPUT, PROBLEM, RUN, ShellSettings, setting


@dataclass
class WatchSettings(ShellSettings):
    """Settings of `watch`."""

    paths: list[str] = setting([], "path", "one log or folder that grows; it need not exist yet", PROBLEM)
    seconds: float | None = setting(
        None, "seconds", "follow for so long (for=60 says the same); null: until the run ends or Ctrl-C", RUN
    )
    idle: float | None = setting(None, "seconds", "end when nothing new came for so long; null: never", RUN)
    every: float = setting(1.0, "seconds", "between two looks at the log", RUN)
    until: float | None = setting(None, "steps", "the run ends at this step", RUN)
    on_alarm: str | None = setting(
        None, "command", "run at every alarm; BANDIT_LAB_ALARM holds the alarm as JSON", OUTPUT
    )
    run_dir: str | None = setting(
        None,
        "path",
        "folder for page.html, written now and then, and alarms.jsonl, a line per alarm; null: neither",
        OUTPUT,
    )
    false_alarm: float = setting(0.05, "per run", "rate of false alarms over the whole run, all failures together")
    patience: int | None = setting(None, "rows", "without a gain: stalled; null: no alarm for that", RUN)
    reward_key: str | None = setting(None, "", "column to read as the reward; null: the trainer's known names")
    step_key: str | None = setting(None, "", "column to read as the step")
    eval_key: str | None = setting(None, "", "column to read as the held-out result")
    where: Any = setting(None, "", "rows that count: where=type=rollout (several: type=rollout,seed=3)")
    run: str | None = setting(None, "", "one run of several in a file: its name or a part; null: the first", RUN)
    reward_scale: list[float] | None = setting(None, "reward", "[lowest, highest] possible; null: estimated")
    log_every: int | None = setting(None, "optimiser steps", "per logged row, where the log does not tell")
    group_size: int | None = setting(None, "answers", "G of the trainer, for what the log alone does not tell", LEARNER)
    stiffness: float | None = setting(None, "as in advise", "K, for the margin where the log has none", LEARNER)
    learning_rate: float | None = setting(None, "as in advise", "eta, for the margin", LEARNER)
    momentum: float = setting(0.0, "", "mu, for the margin", LEARNER)
    refresh_interval: int | None = setting(None, "steps", "N, for the margin", LEARNER)
    plugins: list[str] = setting([], "modules", "Python modules to import first; they may register readers")
