"""`bench`: throughput of the simulator on this machine.

workload         sizes A to D and what they train
numpy_reference  the same in vectorised NumPy, the yardstick
engines          what is timed: NumPy, the reference path, the fast path
timing           in turn, medians of ratios, statistical agreement
probe            one case in a process of its own: first call, peak memory
throughput       the table against NumPy

How speed and memory change with the work, and what every rule costs, is measured by scripts in `experiments/speed`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.document import Block, Document, Figure, On, Paragraph, Values
from bandit_lab.app.settings.bench import REWARDS, SIZE_NAMES, BenchSettings
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.lab.bench import machine, throughput
from bandit_lab.simulation.fast import GENERATORS

__all__ = ["execute", "on_machine", "prepare"]

_QUICK: dict[str, Any] = {"rewards": ["fixed"], "intervals": [1], "reps": 3, "steps": 200}


@dataclass(frozen=True)
class BenchPlan:
    """Checked settings with `quick` and the number of threads worked in."""

    settings: BenchSettings
    threads: int
    precision: str | None = None


def prepare(settings: BenchSettings, explicit: frozenset[str]) -> BenchPlan:
    """Check every setting. Raises ValueError."""
    if settings.quick:
        settings = replace(settings, **{key: value for key, value in _QUICK.items() if key not in explicit})
    for key, known in (("sizes", SIZE_NAMES), ("rewards", REWARDS)):
        chosen = getattr(settings, key)
        _checks.require(bool(chosen), key, f"some of {', '.join(known)}", chosen)
        for name in chosen:
            _checks.choice(key, name, known)
    _checks.require(bool(settings.intervals), "intervals", "refresh intervals >= 1", settings.intervals)
    for interval in settings.intervals:
        _checks.integer("intervals", interval, 1)
    _checks.integer("reps", settings.reps, 1)
    _checks.integer("seed", settings.seed, 0)
    for key, least in (("seeds", 64), ("steps", 2), ("threads", 1)):
        if getattr(settings, key) is not None:
            _checks.integer(key, getattr(settings, key), least)
    _checks.choice("rng", settings.rng, GENERATORS)
    return BenchPlan(settings, settings.threads or machine.usable_cores())


def compute(plan: BenchPlan, progress: Progress) -> Document:
    """Measure throughput."""
    return on_machine(plan, lambda: throughput.measure(plan.settings, plan.threads, progress))


def on_machine(plan: BenchPlan, measure: Callable[[], Document]) -> Document:
    """Results of `measure`, with the machine before them."""
    settings, about = plan.settings, machine.describe()
    found = measure()
    assert found.data is not None
    found.data.attrs |= {"processor": about["processor"], "threads": plan.threads}
    head: list[Block] = [
        Values({"machine": about, "threads": plan.threads, "rng": settings.rng}, on=On.JSON),
        Paragraph(machine.line(about, plan.threads)),
    ]
    blocks = found.sections[""]
    kept = blocks if settings.pictures else [block for block in blocks if not isinstance(block, Figure)]
    return replace(found, sections={"": [*head, *kept]})
