"""The settings of the commands on logs: which logs, how they are read, and what each command asks besides."""

from dataclasses import dataclass, fields
from typing import Any

from bandit_lab.app.settings.schema import LEARNER, OUTPUT, PROBLEM, RARE, RUN, RunSettings, group, name_of, setting
from bandit_lab.runs.diagnose import DiagnoseSettings
from bandit_lab.runs.read.limits import FEWEST_POINTS

TEXTS = ("reward_key", "step_key", "eval_key", "eval_path", "where", "run", "logs_index", "run_dir", "config", "log",
         "page")  # fmt: skip
"""Settings whose value is text as it stands, whatever it holds."""
PASTED = "-"
"""The path of what is pasted into the terminal or piped in."""
LAWS = ["oscillator", "softmax_law", "single_exponential", "sigmoid", "constant"]
_DEFAULT = DiagnoseSettings()
THRESHOLDS = tuple(one.name for one in fields(DiagnoseSettings) if one.name != "options")


@dataclass
class ReadSettings(RunSettings):
    """How a log is read."""

    reward_key: str | None = setting(None, "", "column to read as the reward; null: the trainer's known names")
    step_key: str | None = setting(None, "", "column to read as the step")
    where: Any = setting(None, "", "rows that count: where=type=rollout (several: type=rollout,seed=3)")
    run: str | None = setting(None, "", "one run of several in a file: its name or a part that no other has")
    reward_scale: list[float] | None = setting(None, "reward", "[lowest, highest] possible; null: estimated")
    step_unit: str | None = setting(
        None, "", "what the log counts: optimiser_step (TRL) | rollout_cycle (verl); null: as the trainer does"
    )
    log_every: int | None = setting(None, "optimiser steps", "per logged row, where the log does not tell")


@dataclass
class LogSettings(ReadSettings):
    """Which logs, and how they are read."""

    @property
    def fewest_points(self) -> int:
        """Rewards that a log needs."""
        return FEWEST_POINTS

    paths: list[str] = setting(
        [], "paths", "log files and folders; any argument that is a path counts as one; - reads what is pasted", PROBLEM
    )
    logs_index: str | None = setting(
        None,
        "path",
        "CSV, a run per row: file, and if needed selector, reward_key, eval_curve, outcome, G, K_ref, ...",
        PROBLEM,
    )
    eval_key: str | None = setting(None, "", "column to read as the held-out result")
    eval_path: str | None = setting(
        None,
        "path",
        "file with the held-out results of the run, joined by step (eval_path=my_run/eval_history.json)",
        RUN,
    )
    beside: list[str] = setting([], "paths", "further files of the same run: columns that the log lacks")
    convert_to: str | None = setting(None, "", "optimiser_step | rollout_cycle: report in these (refresh_interval=...)")
    refresh_interval: float | None = setting(
        None, "steps", "optimiser steps per rollout cycle, K_ref of the trainer", LEARNER
    )
    group_size: int | None = setting(None, "answers", "G of the trainer, for what the log alone does not tell", LEARNER)
    thin: bool = setting(True, "", "take the copies out of forward-filled columns")
    engine: dict[str, Any] = group("local", "where many logs are worked on: here, or on dask's workers", RARE)


@dataclass
class FitSettings(LogSettings):
    """Settings of `fit`."""

    learning_rate: float | None = setting(None, "logits per unit gradient", "eta, for the effective stiffness", LEARNER)
    momentum: float | None = setting(None, "", "mu in [0, 1) (Adam: beta1, with sgd_ema)", LEARNER)
    optimizer: dict[str, Any] = name_of(
        "sgd", ("sgd", "sgd_ema", "nesterov"), "sgd (v <- mu v + g) | sgd_ema (v <- mu v + (1 - mu) g) | nesterov"
    )
    models: list[str] = setting(LAWS, "laws", "which are fitted: " + " | ".join(LAWS), RUN)
    level: float = setting(0.9, "", "confidence of the intervals, in [0.5, 0.99]; interval_90 is always at 0.9", RUN)
    pictures: bool = setting(True, "", "draw fits.png (all runs as small multiples)", OUTPUT)
    report: bool = setting(True, "", "write report/<run>.html", OUTPUT)
    seed: int = setting(0, "", "root of the random numbers (the verdict's simulated null)", RUN)


@dataclass
class DiagnosisSettings(LogSettings):
    """Settings of `diagnose`."""

    @property
    def fewest_points(self) -> int:
        """None: one row may prove something, and another column than the reward."""
        return 0

    config: str | None = setting(
        None, "path", "the trainer's configuration (YAML, JSON, TOML, a script): its traps, G and K_ref", PROBLEM
    )
    false_alarm: float = setting(_DEFAULT.false_alarm, "", "of the oscillation test, and of that of growing variance")
    surrogates: int = setting(_DEFAULT.surrogates, "curves", "simulated at most for the oscillation test")
    wave_share: float = setting(_DEFAULT.wave_share, "share of the span", "of an oscillation from peak to peak")
    silent_share: float = setting(_DEFAULT.silent_share, "share of groups", "without signal: degenerate from here on")
    solved_share: float = setting(_DEFAULT.solved_share, "share of the scale", "reward above it: silence is success")
    entropy_share: float = setting(_DEFAULT.entropy_share, "share of the first entropy", "concentrated below it")
    coupling_z: float = setting(_DEFAULT.coupling_z, "standard errors", "by which the held-out result falls behind")
    collapse_share: float = setting(_DEFAULT.collapse_share, "share of the climb", "lost at the end: a collapse")
    collapse_z: float = setting(_DEFAULT.collapse_z, "standard errors", "of the fall")
    swing_share: float = setting(_DEFAULT.swing_share, "share of the span", "fallen and regained twice: swings")
    swing_z: float = setting(_DEFAULT.swing_z, "standard errors", "of the swings")
    truncated_share: float = setting(_DEFAULT.truncated_share, "share of answers", "cut off at the length limit")
    control: bool = setting(
        False, "", "write how to run this at learning rate 0: ten minutes that tell plumbing from dynamics", OUTPUT
    )
    diagnostic: dict[str, Any] = setting(
        {}, "", "options of a plug-in's diagnostic: diagnostic.<failure>.<option>=value", LEARNER
    )
    pictures: bool = setting(True, "", "draw diagnoses.png (several runs as small multiples)", OUTPUT)
    report: bool = setting(True, "", "write report/<run>.html", OUTPUT)
    seed: int = setting(0, "", "root of the random numbers (the oscillation test's simulated null)", RUN)


@dataclass
class WatchSettings(DiagnosisSettings):
    """Settings of `watch`: those of `diagnose`, and how long."""

    seconds: float | None = setting(None, "seconds", "watch for so long (or for=60); null: until Ctrl-C", RUN)
    idle: float | None = setting(None, "seconds", "end when nothing new came for so long; null: never", RUN)
    every: float = setting(5.0, "seconds", "between two looks at the log", RUN)
