"""The settings of the commands on logs: which logs, how they are read, and what each command asks besides."""

from dataclasses import dataclass, fields
from typing import Any

from bandit_lab.app.settings.schema import LEARNER, OUTPUT, PROBLEM, RARE, RUN, RunSettings, group, name_of, setting
from bandit_lab.runs.diagnose import DiagnoseSettings
from bandit_lab.runs.read.limits import FEWEST_POINTS

TEXTS = ("reward_key", "step_key", "eval_key", "eval_path", "where", "run", "logs_index", "run_dir", "config", "log",
         "version", "page",
         "alarms", "on_alarm")  # fmt: skip
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
    from_fraction: float = setting(1.0, "", "share of the points that the forecast sees, in (0, 1]", RUN)
    horizon: float | None = setting(
        None, "steps", "how far behind the last point seen; null: the run's end, or half its length behind it", RUN
    )
    pictures: bool = setting(True, "", "draw fits.png (all runs as small multiples)", OUTPUT)
    report: bool = setting(True, "", "write report/<run>.html, .md and .png, ready to paste into an issue", OUTPUT)
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
    report: bool = setting(True, "", "write report/<run>.html, .md and .png, ready to paste", OUTPUT)
    seed: int = setting(0, "", "root of the random numbers (the oscillation test's simulated null)", RUN)


@dataclass
class AdviseSettings(ReadSettings):
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
        None,
        "",
        "trl | verl | openrlhf | nemo_rl | prime_rl | open_instruct | own_loop | ... or a plug-in's; null: by the keys",
        PROBLEM,
    )
    version: str | None = setting(None, "", "release of the trainer, for defaults that changed: version=0.17", PROBLEM)
    learning_rate: float | None = setting(None, "", "eta; null: of the configuration", LEARNER)
    momentum: float | None = setting(None, "", "mu (Adam: beta1); null: of the configuration", LEARNER)
    optimizer: dict[str, Any] = name_of(None, (), "adamw | adam | sgd | nesterov | rmsprop; null: of the configuration")
    staleness: dict[str, Any] = name_of(
        None,
        ("refresh", "lag", "pipeline"),
        "refresh (model A) | lag (B) | pipeline (C); null: as the configuration implies",
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
    verbose: bool = setting(False, "", "print tables, answers and what was read, not some lines; -v for short", OUTPUT)
    report: bool = setting(True, "", "write report/advice.html, .md and .png, ready to paste into an issue", OUTPUT)
