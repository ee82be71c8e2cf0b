"""Which logs, and what each command asks besides."""

from dataclasses import dataclass

from grpo_clinic import _checks
from grpo_clinic.law import OF_OPTIMIZER
from grpo_clinic.readers.options import UNITS, ReadOptions

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.convert_to is not None:
            _checks.choice("convert_to", self.convert_to, UNITS)
        if self.refresh_interval is not None:
            inside = _checks.positive("refresh_interval", self.refresh_interval) >= 1
            _checks.require(inside, "refresh_interval", "a number >= 1", self.refresh_interval)
        if self.group_size is not None:
            _checks.integer("group_size", self.group_size, 1)


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

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.require(bool(self.models), "models", f"at least one of {', '.join(LAWS)}", [])
        for law in self.models:
            _checks.choice("models", law, LAWS)
        inside = 0.5 <= _checks.finite_number("level", self.level) <= 0.99
        _checks.require(inside, "level", "a number in [0.5, 0.99]", self.level)
        if self.learning_rate is not None:
            _checks.positive("learning_rate", self.learning_rate)
        if self.momentum is not None:
            _checks.momentum("momentum", self.momentum)
        _checks.choice("optimizer", self.optimizer, OF_OPTIMIZER)


@dataclass(frozen=True)
class DiagnosisSettings(LogSettings):
    """Settings of `diagnose`: one row may prove something, and another column than the reward.

    config: the trainer's configuration (YAML or JSON): its traps, G and N.
    """

    needs_reward: bool = False
    config: str | None = None
