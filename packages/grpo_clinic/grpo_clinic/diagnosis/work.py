"""What `diagnose` does to one run: the verdict, with what the trainer's configuration tells."""

from dataclasses import replace

from grpo_clinic import trainers
from grpo_clinic.diagnosis.evidence import DiagnoseSettings, Diagnosis
from grpo_clinic.diagnosis.verdict import diagnose
from grpo_clinic.logs.gather import Log
from grpo_clinic.readers import Curve
from grpo_clinic.trainers import Setup, own_loop

NO_BASELINE = ("no_baseline", "no_group")
"""Traps of trainers' settings that leave GRPO without a baseline."""


def work(log: Log, settings: DiagnoseSettings, setup: Setup | None = None) -> Diagnosis:
    """Judge one run that has a curve; a trainer's configuration tells G and K_ref where nobody else did: the one given,
    or else the one that stands in the log."""
    assert log.curve is not None
    size, interval = log.group_size, log.refresh_interval
    extra: tuple[str, ...] = ()
    found_there = _in_log(log.curve) if setup is None else None
    if setup is not None:
        known = setup.number("group_size")
        size = size or (int(known) if known else None)
        interval = interval or setup.loop.interval
        extra = tuple(f"{trap.text} ({trap.source})" for trap in setup.traps)
    elif found_there is not None and (fact := found_there.facts.get("group_size")) and fact.origin != "default":
        size = size or int(found_there.number("group_size") or 0) or None
    found = diagnose(log.curve, settings, size, interval)
    extra = (*(one for one in [_without_baseline(setup or found_there, size)] if one), *extra)
    return replace(found, traps=(*dict.fromkeys((*found.traps, *extra)),))


def _in_log(curve: Curve) -> Setup | None:
    """The settings that a log holds; None without any, or where they make no sense."""
    logged = trainers.settings_of_log(curve.source, curve.settings)
    try:
        return None if logged is None else trainers.understand(None, {}, logged=logged, log_of=curve.framework)
    except ValueError:
        return None


def _without_baseline(setup: Setup | None, size: int | None) -> str:
    """That the advantage has no group to compare with, in words; nothing where it has, or where nobody knows."""
    if setup is None or setup.trainer is own_loop.TRAINER:
        return "one answer per prompt: there is no group to compare it with" if size == 1 else ""
    return next((trap.text for trap in setup.traps if trap.name in NO_BASELINE), "")
