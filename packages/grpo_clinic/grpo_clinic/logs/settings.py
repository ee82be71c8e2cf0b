"""Which logs, and what each command asks besides."""

from dataclasses import dataclass

from grpo_clinic.readers.options import ReadOptions

PASTED = "-"
"""The path of what is pasted into the terminal or piped in."""
LAWS = ("oscillator", "softmax_law", "single_exponential", "sigmoid", "constant")


@dataclass(frozen=True)
class LogSettings(ReadOptions):
    """Which logs, beside how they are read.

    paths          files and folders; `-`: standard input
    logs_index     instead of paths: a CSV, a run per row (`index`)
    convert_to     `optimiser_step` or `rollout_cycle`: report in these
    refresh_interval, group_size   N and G of the trainer, for what the log alone does not tell
    """

    paths: tuple[str, ...] = ()
    logs_index: str | None = None
    convert_to: str | None = None
    refresh_interval: float | None = None
    group_size: int | None = None


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

    config: the trainer's configuration (YAML or JSON): its traps, G and N.
    """

    needs_reward: bool = False
    config: str | None = None
