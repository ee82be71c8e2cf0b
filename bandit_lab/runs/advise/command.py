"""`advise`: which settings are safe, from a trainer's configuration and a log, with a page to paste into an issue."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from bandit_lab import _checks
from bandit_lab._names import did_you_mean
from bandit_lab.app.document import Block, Column, Document, On, Table, Values
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs import trainers
from bandit_lab.runs.advise import evidence
from bandit_lab.runs.advise.show import on_terminal, page
from bandit_lab.runs.advise.summary import summarise
from bandit_lab.runs.advise.work import work
from bandit_lab.runs.logs.findings import paragraphs
from bandit_lab.runs.logs.gather import Log, missing_curves
from bandit_lab.runs.logs.settings import AdviseSettings
from bandit_lab.runs.trainers import Setup
from bandit_lab.theory import MODELS

_CONFIGS = (".yaml", ".yml", ".toml", ".sh", ".bash", ".py", ".slurm", ".sbatch", ".bin")


@dataclass(frozen=True)
class AdvisePlan:
    """Checked settings, the trainer's as understood, and the logs, read: at most one of them with a curve."""

    settings: AdviseSettings
    setup: Setup
    logs: list[Log]
    precision: ClassVar[str] = "float64"

    @property
    def log(self) -> Log | None:
        """The run."""
        return _run_of(self.logs)


def _run_of(logs: list[Log]) -> Log | None:
    return next((log for log in logs if log.curve is not None), None)


def prepare(settings: AdviseSettings, explicit: frozenset[str]) -> AdvisePlan:
    """Check every setting, read configuration and log. Raises ValueError."""
    _check(settings)
    given_as = "paths" if settings.log is None else "log"
    settings = _with_paths(settings)
    with Progress(settings.quiet).stage("reading"):
        logs = evidence.read_logs(settings, given_as)
    document = trainers.load(settings.config) if settings.config is not None else None
    log = _run_of(logs)
    told = _of_log(log)
    if told is not None and log is not None and told.path != log.path:  # it stands beside the log
        document, told = document or told, None
    options = trainers.from_options(settings.options)
    given = _given(settings)
    _checks.require(
        document is not None or bool(options) or bool(given) or settings.log is not None,
        "paths", "a trainer's configuration, a log (files as plain arguments), or settings such as refresh_interval=4",
        _checks.NOTHING,
    )  # fmt: skip
    log_of = "" if log is None or log.curve is None else log.curve.framework
    late = () if log is None or log.curve is None else log.curve.late_columns
    setup = trainers.understand(document, options, given, settings.framework, settings.version, told, log_of, late)
    setup = evidence.with_logged_ages(evidence.with_logged_rate(setup, log), log)
    _check_options(options, setup.trainer)
    return AdvisePlan(settings, setup, logs)


def _check_options(options: Mapping[str, Any], trainer: trainers.Trainer) -> None:
    """Raise ValueError for an option that this trainer's rules do not know: it would change nothing."""
    names = {name.partition("[")[0] for key in trainer.keys for name in key.names} | set(trainer.marks)
    for option in options:
        known = any(option == name or option.endswith(f".{name}") for name in names)
        near = did_you_mean(option, names) or f" ({', '.join(sorted(names))})"
        what = f"an option of {trainer.name} that counts here{near}"
        _checks.require(known, f"options.{option}", what, options[option])


def _check(settings: AdviseSettings) -> None:
    for name in ("learning_rate", "stiffness"):
        if getattr(settings, name) is not None:
            _checks.positive(name, getattr(settings, name))
    for name in ("delay", "kl_weight"):
        if getattr(settings, name) is not None:
            _checks.non_negative(name, getattr(settings, name))
    if settings.momentum is not None:
        _checks.momentum("momentum", settings.momentum)
    if settings.staleness["name"] is not None:
        _checks.choice("staleness", settings.staleness["name"], MODELS)
    if settings.group_size is not None:
        _checks.integer("group_size", settings.group_size, 1)
    for name in ("signal", "group_factor"):
        _checks.require(0 < getattr(settings, name) < 1, name, "a number in (0, 1)", getattr(settings, name))
    _checks.positive("temperature", settings.temperature)
    _checks.require(settings.safety > 1, "safety", "a number > 1", settings.safety)
    if settings.success is not None:
        _checks.require(0 <= settings.success <= 1, "success", "a probability in [0, 1]", settings.success)
    both = settings.stiffness is not None and settings.delay is not None
    _checks.require(not both, "stiffness", "either stiffness or delay", _checks.BOTH)


def _with_paths(settings: AdviseSettings) -> AdviseSettings:
    """The settings with each plain path as configuration or log, by its name and, for the rest, by what it holds."""
    for path in settings.paths:
        config = _is_config(Path(path))
        key = "config" if config else "log"
        _checks.require(getattr(settings, key) is None, key, f"one {key}", f"{getattr(settings, key)} and {path}")
        settings = replace(settings, config=path) if config else replace(settings, log=path)
    return settings


def _of_log(log: Log | None) -> trainers.Configuration | None:
    if log is None or log.curve is None:
        return None
    return trainers.settings_of_log(log.curve.source, log.curve.settings)


def _is_config(path: Path) -> bool:
    if os.path.isdir(path):
        return os.path.isdir(path / ".hydra")
    if path.suffix.lower() in _CONFIGS:
        return True
    if path.suffix.lower() != ".json":
        return False
    try:
        return trainers.understand(trainers.load(str(path)), {}).trainer.name != "own loop"
    except ValueError:
        return False


def _given(settings: AdviseSettings) -> dict[str, Any]:
    """What was given in this project's words, by quantity."""
    names = ("learning_rate", "refresh_interval", "group_size", "kl_weight")
    given = {name: getattr(settings, name) for name in names}
    given |= {"beta1": settings.momentum, "optimizer": settings.optimizer["name"]}
    given |= {"staleness": settings.staleness["name"]}
    return {quantity: value for quantity, value in given.items() if value is not None}


def compute(plan: AdvisePlan, run: Progress) -> Document:
    """Work out the advice."""
    settings = plan.settings
    with run.stage("fit of the log"):
        seen = evidence.look(plan.log, plan.setup)
    with run.stage("margins"):
        advice = work(plan.setup, seen, settings)
        numbers = Values(summarise(advice, settings), on=On.JSON)
    not_read: Table[Log] = Table([log for log in plan.logs if log.curve is None], [
        Column("log", "log", lambda log: log.name),
        Column("path", "path", lambda log: log.path),
        Column("reason", "reason", lambda log: log.reason),
    ], on=On.JSON)  # fmt: skip
    unread = paragraphs([log.line for log in not_read.rows], On.TERMINAL)
    sections: dict[str, Sequence[Block]] = {
        "": [numbers, *on_terminal(advice, settings)],
        "not_read": [not_read, *unread],
    }
    pages = {"advice": page(advice, settings)} if settings.report else {}
    return Document("Advice", sections, None, pages, missing_curves(plan.logs))
