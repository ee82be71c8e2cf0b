"""`diagnose` and `fit`: from paths to what is found, a run each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_clinic import _checks, trainers
from grpo_clinic.fitting.shapes import SHAPES
from grpo_clinic.fitting.work import Fitted, work as fitted
from grpo_clinic.law import OF_OPTIMIZER
from grpo_clinic.logs.gather import Log, gather
from grpo_clinic.logs.settings import DiagnosisSettings, FitSettings, LogSettings
from grpo_clinic.readers import Curve
from grpo_clinic.report import Report, report
from grpo_clinic.rules import Case, rules
from grpo_clinic.trainers import Setup, own_loop

NO_BASELINE = ("no_baseline", "no_group")
"""Traps of trainers' settings that leave GRPO without a baseline."""


@dataclass(frozen=True)
class Diagnosed:
    """One run: its `name`, its `curve`, and what was found in it."""

    name: str
    curve: Curve
    found: Report


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
    _check(settings)
    setup = None if settings.config is None else trainers.understand(trainers.load(settings.config), {})
    rules(limits)
    logs = gather(settings)
    read = [(log, log.curve) for log in logs if log.curve is not None]
    runs = [Diagnosed(log.name, curve, _judged(log, curve, limits, setup)) for log, curve in read]
    return runs, [log for log in logs if log.curve is None]


def _judged(log: Log, curve: Curve, limits: Mapping[str, float] | None, setup: Setup | None) -> Report:
    """One run; its recipe tells G, N and the bound on ages where nobody else did: the given one, or the log's own."""
    size, interval, known = log.group_size, log.refresh_interval, setup or _in_log(curve)
    traps = () if setup is None else tuple(f"{trap.text} ({trap.source})" for trap in setup.traps)
    if known is not None:
        fact = known.facts.get("group_size")
        if fact is not None and (setup is not None or fact.origin != "default"):
            size = size or int(known.number("group_size") or 0) or None
        interval = interval or (setup.loop.interval if setup is not None else None)
    bound, source = _age_bound(known)
    without = _without_baseline(known, size)
    case = Case(curve, size, interval, bound, source)
    return report(case, log.name, limits, traps=(*([without] if without else []), *traps))


def _in_log(curve: Curve) -> Setup | None:
    """The settings that a log holds; None without any, or where they make no sense."""
    logged = trainers.settings_of_log(curve.source, curve.settings)
    try:
        return None if logged is None else trainers.understand(None, {}, logged=logged, log_of=curve.framework)
    except ValueError:
        return None


def _age_bound(setup: Setup | None) -> tuple[float | None, str]:
    """The largest age that a recipe states, and under which name; a default is no statement."""
    for name in ("max_staleness", "max_off_policy_steps", "max_trajectory_age_steps", "max_head_offpolicyness"):
        fact = None if setup is None else setup.loop.terms.get(name) or setup.facts.get(name)
        if fact is not None and fact.origin != "default" and isinstance(fact.value, int | float):
            return float(fact.value), fact.key or name
    return None, ""


def _without_baseline(setup: Setup | None, size: int | None) -> str:
    """That the advantage has no group to compare with, in words; nothing where it has, or where nobody knows."""
    if setup is None or setup.trainer is own_loop.TRAINER:
        return "one answer per prompt: there is no group to compare it with" if size == 1 else ""
    return next((trap.text for trap in setup.traps if trap.name in NO_BASELINE), "")


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
