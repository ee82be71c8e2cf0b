"""`bench`: throughput of the simulator on this machine.

workload         sizes A to D and what they train
numpy_reference  the same in vectorised NumPy, the yardstick
engines          what is timed: NumPy, the reference path, the fast path
timing           in turn, medians of ratios, statistical agreement
probe            one case in a process of its own: first call, peak memory
throughput       the table against NumPy
scaling          how speed and memory change with the work
variants         what every registered rule costs over the plain one
"""

from dataclasses import dataclass, replace
from typing import Any

from bandit_lab import _checks
from bandit_lab.app.document import Block, Document, Figure, On, Paragraph, Values
from bandit_lab.app.document.write import perform
from bandit_lab.app.settings.bench import REWARDS, SIZE_NAMES, STUDIES, BenchSettings
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.lab.bench import machine, scaling, throughput, variants
from bandit_lab.simulation.fast import GENERATORS

__all__ = ["execute", "prepare"]

_STUDIES = {"throughput": throughput.measure, "scaling": scaling.measure, "variants": variants.measure}
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
    _checks.choice("study", settings.study, STUDIES)
    if settings.paper:
        _checks.require(settings.study == "scaling", "study", "scaling, as paper=true is given", settings.study)
        _checks.require(not settings.quick, "quick", "false, as paper=true is given", settings.quick)
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
    if settings.only:
        _checks.require(settings.study == "variants", "study", "variants, as only=... is given", settings.study)
    for name in settings.only:
        _checks.choice("only", name, variants.names())
    _checks.choice("rng", settings.rng, GENERATORS)
    return BenchPlan(settings, settings.threads or machine.usable_cores())


def compute(plan: BenchPlan, progress: Progress) -> Document:
    """Measure; what it was measured on stands before the results."""
    settings, about = plan.settings, machine.describe()
    found = _STUDIES[settings.study](settings, plan.threads, progress)
    assert found.data is not None
    found.data.attrs |= {"processor": about["processor"], "threads": plan.threads}
    head: list[Block] = [Values({"machine": about, "threads": plan.threads, "rng": settings.rng}, on=On.JSON)]
    if settings.study == "throughput":
        head.append(Paragraph(machine.line(about, plan.threads)))
    blocks = found.sections[""]
    kept = blocks if settings.pictures else [block for block in blocks if not isinstance(block, Figure)]
    return replace(found, sections={"": [*head, *kept]})


execute = perform("bench", compute)
