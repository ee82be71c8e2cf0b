"""`diagnose` and `fit`: from paths to a report or a fit, a run each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_clinic import trainers
from grpo_clinic.fitting.work import Fitted, work as fitted
from grpo_clinic.logs.gather import Log, gather
from grpo_clinic.logs.settings import DiagnosisSettings, FitSettings
from grpo_clinic.readers import Curve
from grpo_clinic.report import Report, report
from grpo_clinic.rules import Case, rules
from grpo_clinic.trainers import Recipe


@dataclass(frozen=True)
class Diagnosed:
    """One run: its `name`, its `curve`, and its `report`."""

    name: str
    curve: Curve
    report: Report


def diagnose(*paths: str | Path, limits: Mapping[str, float] | None = None, **options: Any) -> list[Diagnosed]:
    """Judge every run in log files and folders.

    Args:
      paths: files and folders.
      limits: of rules, by name, in place of theirs.
      options: those of `DiagnosisSettings`, as `config="recipe.yaml"`.

    Raises:
      ValueError: one line that names what is wrong, expected and got; no run could be read.

    Example:
      >>> diagnose("runs/nobody/wrote.jsonl")
      Traceback (most recent call last):
      ValueError: paths: runs/nobody/wrote.jsonl: expected a readable file or folder, got nothing of this name
    """
    return diagnosed(DiagnosisSettings(paths=tuple(map(str, paths)), **options), limits)[0]


def diagnosed(
    settings: DiagnosisSettings, limits: Mapping[str, float] | None = None
) -> tuple[list[Diagnosed], list[Log]]:
    """(runs that were judged, logs without a curve)."""
    recipe = None if settings.config is None else trainers.recipe_of(settings.config)
    rules(limits)  # a mistake there is said before anything is read
    logs = gather(settings)
    read = [(log, log.curve) for log in logs if log.curve is not None]
    runs = [Diagnosed(log.name, curve, _judged(log, curve, limits, recipe)) for log, curve in read]
    return runs, [log for log in logs if log.curve is None]


def _judged(log: Log, curve: Curve, limits: Mapping[str, float] | None, recipe: Recipe | None) -> Report:
    """One run; its recipe tells G, N and the bound on ages where nobody else did: the given one, or the log's own."""
    setup = recipe or trainers.recipe_in_log(trainers.settings_of_log(curve.source, curve.settings), curve.framework)
    size, interval = log.group_size or setup.group_size, log.refresh_interval or setup.interval
    traps = () if recipe is None else tuple(f"{trap.text} ({trap.source})" for trap in recipe.traps)
    case = Case(curve, size, interval, setup.age_bound, setup.age_key, no_group=setup.without_baseline(size))
    return report(case, log.name, limits, traps=traps)


def fit(*paths: str | Path, **options: Any) -> list[Fitted]:
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
    return all_fitted(FitSettings(paths=tuple(map(str, paths)), **options))[0]


def all_fitted(settings: FitSettings) -> tuple[list[Fitted], list[Log]]:
    """(runs that were fitted, logs without a curve)."""
    logs = gather(settings)
    return [fitted(log, settings) for log in logs if log.curve is not None], [log for log in logs if log.curve is None]
