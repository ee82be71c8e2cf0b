"""The order of a sweep's work: what is cheap is done at once, what is long in chunks that are kept."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandit_lab.app.chunks import (
    Attempts,
    ChunkStore,
    Report,
    Schedule,
    Work,
    one_after_another,
    planned,
    run_chunks,
)
from bandit_lab.app.folder.manifest import CompileClock
from bandit_lab.app.settings import grid
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.grpo import Hyper
from bandit_lab.lab.sweep.exact import (
    Detected,
    Drift,
    DriftResult,
    Predicted,
    collect_rows,
    find_equilibria,
    predict_rows,
    rows,
    values,
)
from bandit_lab.lab.sweep.jobs import SAMPLED, RowsWork, rows_work
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.lab.sweep.sampled import SampledResult, collect_sampled, learning_rates, plan_sampled
from bandit_lab.simulation import drift_name


@dataclass
class Computed:
    """Learning rates of the grid, one result per drift, the sampled runs; and what this process did of it.

    failed: place of every failed chunk -> reason. found, made: chunks that were there, and that were computed here.
    started: by `time.perf_counter`. seconds: of all of it, `compile_seconds` of these in compiling.
    """

    rates: np.ndarray
    drifts: list[DriftResult]
    sampled: SampledResult | None = None
    found: int = 0
    made: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    seed_steps_here: float = 0.0
    sampling_compile_seconds: float = 0.0
    started: float = 0.0
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def counts(self, store: ChunkStore) -> dict[str, Any]:
        """For `manifest.json` and `summary.json`."""
        return {
            "total": self.found + self.made + len(self.failed),
            "found": self.found,
            "computed_here": self.made,
            "failed": [{"chunk": place, "reason": reason} for place, reason in self.failed.items()],
            "seconds": round(sum(record.seconds for record in store.records().values()), 3),
        }


def failed_text(failed: dict[str, str]) -> str:
    """One line for what is missing."""
    place, reason = next(iter(failed.items()))
    more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
    return f"failed, null in the results: {place} ({reason}){more}"


class _Stages:
    """Runs lists of chunks as stages of the progress, and adds up what became of them."""

    def __init__(self, store: ChunkStore, progress: Progress, attempts: Attempts) -> None:
        self.store, self.progress, self.attempts = store, progress, attempts
        self.plan: Schedule = {}
        self.found, self.made, self.failed = 0, 0, dict[str, str]()

    def announce(self, kinds: Mapping[str, Sequence[Work]]) -> None:
        self.plan |= {kind: planned(work) for kind, work in kinds.items()}
        self.store.write_plan(self.plan)

    def run(self, kind: str, work: Sequence[Work]) -> Report:
        """Do it."""
        with self.progress.stage(kind) as advance:
            report = run_chunks(self.store, work, advance, self.attempts)
        self.found, self.made = self.found + report.found, self.made + report.computed
        self.failed |= {f"{kind}: {work[i].what}": reason for i, reason in report.failed.items()}
        return report


def compute_all(
    plan: SweepPlan, store: ChunkStore, progress: Progress, attempts: Attempts = one_after_another
) -> Computed:
    """Everything that a sweep computes. attempts: of an engine, by which the chunks are computed."""
    started = time.perf_counter()
    with CompileClock() as clock:
        result = _computed(plan, store, progress, attempts)
    seconds = time.perf_counter() - started
    return replace(result, started=started, seconds=seconds, compile_seconds=clock.split(seconds)["compile"])


def _computed(plan: SweepPlan, store: ChunkStore, progress: Progress, attempts: Attempts) -> Computed:
    """Theory of the rows, then what is measured of them in chunks, then sampled runs where the thresholds lie."""
    coarse = rows(plan.sampled_momentum, plan.kl_weight, plan.sampled_interval)
    places = [rows(plan.momentum, plan.kl_weight, plan.refresh_interval), coarse][: len(plan.drifts)]
    theory = [_theory(plan, *of, progress) for of in zip(plan.drifts, places, strict=True)]
    rates = fine_learning_rates(plan, [drift.predicted for drift in theory])
    stages = _Stages(store, progress, attempts)
    work = [rows_work(plan, drift, rates) for drift in theory]
    stages.announce({kind: chunks for part in work for kind, chunks in part.items()})
    if plan.sampled_rows:
        unknown = np.ones((len(coarse.momentum), len(plan.multiples)))
        stages.announce({SAMPLED: plan_sampled(plan, None, coarse, unknown).chunks})
    drifts = []
    for drift, kinds in zip(theory, work, strict=True):
        shape = (len(drift.cells.momentum), len(rates))
        found = [_detected(store, chunks, stages.run(kind, chunks), shape) for kind, chunks in kinds.items()]
        drifts.append(collect_rows(plan, drift, rates, *found))
    result = Computed(rates, drifts)
    if plan.sampled_rows:
        _sample(plan, stages, coarse, result)
    result.found, result.made, result.failed = stages.found, stages.made, stages.failed
    return result


def _theory(plan: SweepPlan, dynamics: str, cells: Hyper, progress: Progress) -> Drift:
    name = drift_name(plan.learner, dynamics)
    with progress.stage(f"fixed point and stiffness, {name}"):
        equilibria = find_equilibria(plan, dynamics)
    with progress.stage(f"theory, {name}") as advance:
        predicted = predict_rows(equilibria, cells, advance)
        return Drift(dynamics, name, equilibria, cells, predicted)


def _detected(store: ChunkStore, work: list[RowsWork], report: Report, shape: tuple[int, int]) -> Detected:
    """The rows of all chunks of a detector; NaN where none has them, with the reason where one failed."""
    result = Detected(np.full(shape[0], np.nan), np.full(shape, np.nan), [None] * shape[0])
    for i, (chunk, key) in enumerate(zip(work, report.keys, strict=True)):
        if reason := report.failed.get(i):
            for row in chunk.rows:
                result.reasons[row] = reason
        else:
            arrays = store.load(key)
            result.value[chunk.rows], result.on_grid[chunk.rows] = arrays["value"], arrays["on_grid"]
    return result


def _sample(plan: SweepPlan, stages: _Stages, coarse: Hyper, result: Computed) -> None:
    """The sampled runs, on learning rates that the thresholds decide; into `result`."""
    finite = result.drifts[1] if len(result.drifts) > 1 else None
    first = result.drifts[0]
    expected = finite.predicted if finite else predict_rows(first.equilibria, coarse)
    measured = finite.boundary if finite else np.full(len(coarse.momentum), np.nan)
    sampling = CompileClock()
    with sampling:
        wanted = learning_rates(plan, expected, measured, result.rates)
        chosen = plan_sampled(plan, finite, coarse, wanted)
        stages.announce({SAMPLED: chosen.chunks})
        report = stages.run(SAMPLED, chosen.chunks)
    result.seed_steps_here = report.size
    result.sampling_compile_seconds = sampling.seconds
    result.sampled = collect_sampled(plan, chosen, stages.store, report)


def fine_learning_rates(plan: SweepPlan, predicted: list[Predicted]) -> np.ndarray:
    """The grid's learning rates; where they were left open, a range laid out from the stiffness alone.

    It reaches from the law and the leading-order oscillator's onset up to where an undelayed update flips.
    """
    if plan.learning_rate is not None:
        return plan.learning_rate
    lines = [values(column) for p in predicted for column in (p.law, p.undelayed, p.oscillator_onset)]
    low, high = grid.learning_rate_range(np.concatenate(lines).tolist())
    spec = {"start": low, "stop": high, **plan.learning_rate_spec}
    return grid.axis("sweep.learning_rate", "learning_rate", spec, {})
