"""The settings that make one process part of several, and their checks."""

from dataclasses import dataclass

from bandit_lab import _checks
from bandit_lab.study.settings.schema import setting

AUTO = "auto"


@dataclass
class HostSettings:
    """Several processes that share the work of one run folder."""

    coordinator: str | None = setting(
        None,
        "address:port",
        "the same for all, nothing is sent there; auto: what Slurm, Open MPI or TPU say; null: one process",
    )
    count: int | None = setting(None, "processes", "that take part; null: with coordinator=auto")
    index: int | None = setting(None, "", "of this process, 0 to count - 1; null: with coordinator=auto")
    patience: float = setting(600.0, "s", "without a new chunk from the others before they are given up on")


def check(settings: HostSettings, run_dir: str | None) -> None:
    """Raise ValueError unless the settings name a process among several, or none at all."""
    _checks.positive("hosts.patience", settings.patience)
    if settings.coordinator is None:
        for name in ("count", "index"):
            given = getattr(settings, name)
            _checks.require(given is None, "hosts.coordinator", f"an address, as hosts.{name} is given", None)
        return
    _checks.require(run_dir is not None, "run_dir", "a folder that all processes see (and no -m)", run_dir)
    if settings.coordinator == AUTO:
        return
    port = settings.coordinator.rpartition(":")[2]
    _checks.require(port.isdecimal(), "hosts.coordinator", "address:port, or auto", settings.coordinator)
    for name, least in (("count", 1), ("index", 0)):
        _checks.integer(f"hosts.{name}", getattr(settings, name), least)
    count, index = settings.count or 1, settings.index or 0
    _checks.require(index < count, "hosts.index", f"less than hosts.count = {count}", index)
