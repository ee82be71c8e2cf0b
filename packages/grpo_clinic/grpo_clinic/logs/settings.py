"""Which logs, how they are read, and what each command asks besides."""

from dataclasses import dataclass
from typing import Any

from grpo_clinic.readers.limits import FEWEST_POINTS

PASTED = "-"
"""The path of what is pasted into the terminal or piped in."""
LAWS = ("oscillator", "softmax_law", "single_exponential", "sigmoid", "constant")


@dataclass(frozen=True)
class LogSettings:
    """Which logs, and how they are read.

    paths          files and folders; `-`: standard input
    logs_index     instead of paths: a CSV, a run per row (`index`)
    reward_key     column to read as the reward; by default the trainer's known names
    step_key       column to read as the step
    where          rows that count: "type=rollout" (several: "type=rollout,seed=3")
    run            one run of several in a file: its name, or a part that no other has
    reward_scale   (lowest, highest) possible reward; estimated by default
    step_unit      what the log counts, `optimiser_step` or `rollout_cycle`, where it does not tell
    log_every      optimiser steps per logged row, where the log does not tell
    eval_key       column to read as the held-out result
    eval_path      file with the held-out results of the run, joined by step
    beside         further files of the same run: columns that the log lacks
    convert_to     `optimiser_step` or `rollout_cycle`: report in these
    refresh_interval, group_size   N and G of the trainer, for what the log alone does not tell
    thin           take the copies out of forward-filled columns
    fewest_points  rewards that a log needs
    """

    paths: tuple[str, ...] = ()
    logs_index: str | None = None
    reward_key: str | None = None
    step_key: str | None = None
    where: Any = None
    run: str | None = None
    reward_scale: tuple[float, float] | None = None
    step_unit: str | None = None
    log_every: int | None = None
    eval_key: str | None = None
    eval_path: str | None = None
    beside: tuple[str, ...] = ()
    convert_to: str | None = None
    refresh_interval: float | None = None
    group_size: int | None = None
    thin: bool = True
    fewest_points: int = FEWEST_POINTS


@dataclass(frozen=True)
class FitSettings(LogSettings):
    """Settings of `fit`. The trainer's learning rate [logits per unit gradient], momentum and optimiser give K.

    level: confidence of the intervals, in [0.5, 0.99]. models: the laws that are fitted.
    """

    learning_rate: float | None = None
    momentum: float | None = None
    optimizer: str = "sgd"
    models: tuple[str, ...] = LAWS
    level: float = 0.9


@dataclass(frozen=True)
class DiagnosisSettings(LogSettings):
    """Settings of `diagnose`: one row may prove something, and another column than the reward.

    config: the trainer's configuration (YAML, JSON, TOML, a script): its traps, G and N.
    """

    fewest_points: int = 0
    config: str | None = None
