"""`diagnose` and `fit`: from paths to what is found, a run each."""

from dataclasses import dataclass
from typing import Any

from grpo_clinic import _checks, trainers
from grpo_clinic.diagnosis import work as judging
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Diagnosis
from grpo_clinic.fitting.shapes import SHAPES
from grpo_clinic.fitting.work import Fitted, work as fitted
from grpo_clinic.law import OF_OPTIMIZER
from grpo_clinic.logs.gather import Log, gather
from grpo_clinic.logs.settings import DiagnosisSettings, FitSettings, LogSettings
from grpo_clinic.readers import Curve


@dataclass(frozen=True)
class Diagnosed:
    """One run: its `name`, its `curve`, and what was found in it."""

    name: str
    curve: Curve
    found: Diagnosis


def diagnose(*paths: str, limits: DiagnoseSettings | None = None, **options: Any) -> list[Diagnosed]:
    """Judge every run in log files and folders.

    Args:
      paths: files and folders.
      limits: thresholds of the rules; by default those that were tuned.
      options: those of `DiagnosisSettings`, as `config="recipe.yaml"`.

    Raises:
      ValueError: one line that names what is wrong, expected and got; no run could be read.

    Example:
      >>> diagnose("runs/nobody/wrote.jsonl")
      Traceback (most recent call last):
      ValueError: paths: runs/nobody/wrote.jsonl: expected a readable file or folder, got nothing of this name
    """
    return diagnosed(DiagnosisSettings(paths=paths, **options), limits)[0]


def diagnosed(settings: DiagnosisSettings, limits: DiagnoseSettings | None = None) -> tuple[list[Diagnosed], list[Log]]:
    """(runs that were judged, logs without a curve)."""
    _check(settings)
    setup = None if settings.config is None else trainers.understand(trainers.load(settings.config), {})
    logs = gather(settings)
    limits = limits or DiagnoseSettings()
    read = [(log, log.curve) for log in logs if log.curve is not None]
    runs = [Diagnosed(log.name, curve, judging.work(log, limits, setup)) for log, curve in read]
    return runs, [log for log in logs if log.curve is None]


def fit(*paths: str, **options: Any) -> list[Fitted]:
    """Fit the closed-form laws to the reward of every run in log files and folders.

    Args:
      paths: files and folders.
      options: those of `FitSettings`, as `level=0.95`.

    Raises:
      ValueError: as `diagnose`.

    Example:
      >>> fit("runs/a.csv", level=2)
      Traceback (most recent call last):
      ValueError: level: expected a number in [0.5, 0.99], got 2
    """
    return all_fitted(FitSettings(paths=paths, **options))[0]


def all_fitted(settings: FitSettings) -> tuple[list[Fitted], list[Log]]:
    """(runs that were fitted, logs without a curve)."""
    _checks.require(bool(settings.models), "models", "at least one of " + ", ".join(SHAPES), [])
    for law in settings.models:
        _checks.choice("models", law, SHAPES)
    _checks.require(0.5 <= settings.level <= 0.99, "level", "a number in [0.5, 0.99]", settings.level)
    if settings.learning_rate is not None:
        _checks.positive("learning_rate", settings.learning_rate)
    if settings.momentum is not None:
        _checks.momentum("momentum", settings.momentum)
    _checks.choice("optimizer", settings.optimizer, OF_OPTIMIZER)
    _check(settings)
    logs = gather(settings)
    return [fitted(log, settings) for log in logs if log.curve is not None], [log for log in logs if log.curve is None]


def _check(settings: LogSettings) -> None:
    if settings.refresh_interval is not None:
        inside = _checks.positive("refresh_interval", settings.refresh_interval) >= 1
        _checks.require(inside, "refresh_interval", "a number >= 1", settings.refresh_interval)
    if settings.group_size is not None:
        _checks.integer("group_size", settings.group_size, 1)
