"""The settings of `fit`: which logs, how they are read, which laws, what is forecast."""

from dataclasses import dataclass
from typing import Any

from bandit_lab.study.schema import setting

LAWS = ["oscillator", "softmax_law", "single_exponential", "sigmoid", "constant"]
TEXTS = ("reward_key", "step_key", "eval_key", "where", "run", "logs_index", "run_dir", "config", "log", "version")
"""Settings whose value is text as it stands, whatever it holds."""


@dataclass
class FitSettings:
    """Settings of `fit`."""

    paths: list[str] = setting([], "paths", "log files and folders; any argument that is a path counts as one")
    logs_index: str | None = setting(
        None, "path", "CSV with one run per row: file, and if needed selector, reward_key, outcome, G, K_ref, ..."
    )
    reward_key: str | None = setting(None, "", "column to read as the reward; null: the trainer's known names")
    step_key: str | None = setting(None, "", "column to read as the step")
    eval_key: str | None = setting(None, "", "column to read as the held-out result")
    where: Any = setting(None, "", "rows that count: where=type=rollout (several: type=rollout,seed=3)")
    run: str | None = setting(None, "", "one run of several in a file: its name or a part that no other has")
    beside: list[str] = setting([], "paths", "further files of the same run: columns that the log lacks")
    reward_scale: list[float] | None = setting(None, "reward", "[lowest, highest] possible; null: estimated")
    step_unit: str | None = setting(
        None, "", "what the log counts: optimiser_step (TRL) | rollout_cycle (verl); null: as the trainer does"
    )
    convert_to: str | None = setting(None, "", "optimiser_step | rollout_cycle: report in these (refresh_interval=...)")
    refresh_interval: float | None = setting(None, "steps", "optimiser steps per rollout cycle, K_ref of the trainer")
    group_size: int | None = setting(None, "answers", "G of the trainer, for the verdict of the report")
    log_every: int | None = setting(None, "optimiser steps", "per logged row, where the log does not tell")
    thin: bool = setting(True, "", "take the copies out of forward-filled columns")
    learning_rate: float | None = setting(None, "logits per unit gradient", "eta, for the effective stiffness")
    momentum: float | None = setting(None, "", "mu in [0, 1) (Adam: beta1, with the ema convention)")
    convention: str = setting("heavy_ball", "", "heavy_ball (v <- mu v + g) | ema (v <- mu v + (1 - mu) g) | nesterov")
    models: list[str] = setting(LAWS, "laws", "which are fitted: " + " | ".join(LAWS))
    level: float = setting(0.9, "", "confidence of the intervals, in [0.5, 0.99]; interval_90 is always at 0.9")
    from_fraction: float = setting(1.0, "", "share of the points that the forecast sees, in (0, 1]")
    horizon: float | None = setting(
        None, "steps", "how far behind the last point seen; null: the run's end, or half its length behind it"
    )
    backtest: bool = setting(False, "", "forecast every run's end from its first parts and score it")
    fractions: list[float] = setting([0.3, 0.5, 0.7], "", "shares of the points that the back-test sees")
    backtest_points: int = setting(60, "points", "shorter runs are left out of the back-test")
    pictures: bool = setting(True, "", "draw fits.png (all runs as small multiples)")
    report: bool = setting(True, "", "write report/<run>.html, .md and .png, ready to paste into an issue")
    seed: int = setting(0, "", "root of the random numbers (the verdict's simulated null)")
    plugins: list[str] = setting([], "modules", "Python modules to import first")
    run_dir: str | None = setting(None, "path", "run folder; null: outputs/fit/<date>_<time>")
    overwrite: bool = setting(False, "", "replace a finished run in run_dir")
    quiet: bool = setting(False, "", "no progress on stderr")
