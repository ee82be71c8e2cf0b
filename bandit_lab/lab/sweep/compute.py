"""The order of a sweep's work: theory, jobs that are kept, and example runs on both sides of both boundaries."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandit_lab import measure
from bandit_lab._types import Outcome
from bandit_lab.app.chunks import (
    Attempts,
    ChunkStore,
    Report,
    Work,
    one_after_another,
    run_chunks,
)
from bandit_lab.app.folder.store import CompileClock
from bandit_lab.app.terminal.output import Progress
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict.linear import linearise
from bandit_lab.lab.sweep.jobs import (
    SAME,
    SAMPLED,
    Drift,
    Equilibrium,
    Predicted,
    predict_rows,
    rows,
    rows_work,
    unmeasured_reason,
    values,
)
from bandit_lab.lab.sweep.plan import SweepPlan, axis
from bandit_lab.lab.sweep.sampled import SampledResult, collect_sampled, learning_rates, plan_sampled
from bandit_lab.simulation import drift_name


@dataclass(frozen=True)
class DriftResult(Drift):
    """The same rows measured.

    boundary, onset: [R]; NaN where `reasons` says why. On the learning rates of the grid, [R, L] each: growth per step,
    rings > 0 where the stiffest mode's dominant pole is not real and positive, outcome codes. no_onset: why no onset of
    oscillation can be measured, or None.
    """

    boundary: np.ndarray
    onset: np.ndarray
    growth: np.ndarray
    rings: np.ndarray
    outcome: np.ndarray
    reasons: list[str | None]
    no_onset: str | None = None


@dataclass
class Computed:
    """Learning rates of the grid, one result per drift, the sampled runs; and what this process did of it.

    found, made: jobs that were done before, and that were computed here, in `job_seconds`. failed: place of every
    failed job -> reason. started: by `time.perf_counter`. seconds: of all of it, `compile_seconds` of these in
    compiling; `sampling_compile_seconds` for the sampled runs.
    """

    rates: np.ndarray
    started: float
    drifts: list[DriftResult] = field(default_factory=list)
    sampled: SampledResult | None = None
    found: int = 0
    made: int = 0
    job_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    seed_steps_here: float = 0.0
    sampling_compile_seconds: float = 0.0
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def counts(self) -> dict[str, Any]:
        """For `manifest.json` and `summary.json`."""
        return {
            "total": self.found + self.made + len(self.failed),
            "found": self.found,
            "computed_here": self.made,
            "failed": [{"chunk": place, "reason": reason} for place, reason in self.failed.items()],
            "seconds": round(self.job_seconds, 3),
        }


def compute_all(
    plan: SweepPlan, store: ChunkStore, progress: Progress, attempts: Attempts = one_after_another
) -> Computed:
    """Theory of the rows, then what is measured of them in jobs, then sampled runs where the thresholds lie.

    attempts: of an engine, by which the jobs are computed.
    """
    started = time.perf_counter()

    def run(kind: str, work: Sequence[Work]) -> Report:
        with progress.stage(kind) as advance:
            report = run_chunks(store, work, advance, attempts)
        done.found, done.made = done.found + report.found, done.made + report.computed
        done.job_seconds += report.seconds
        done.failed |= {f"{kind}: {work[i].what}": reason for i, reason in report.failed.items()}
        return report

    with CompileClock() as clock:
        coarse = rows(plan.sampled_momentum, plan.kl_weight, plan.sampled_interval)
        places = [rows(plan.momentum, plan.kl_weight, plan.refresh_interval), coarse][: len(plan.drifts)]
        theory = [_theory(plan, *of, progress) for of in zip(plan.drifts, places, strict=True)]
        done = Computed(_fine_learning_rates(plan, [drift.predicted for drift in theory]), started)
        for drift in theory:
            done.drifts.append(_measured(plan, drift, done.rates, store, run))
        if len(coarse.momentum):
            with CompileClock() as sampling:
                finite, first = (done.drifts[1] if len(done.drifts) > 1 else None), done.drifts[0]
                expected = finite.predicted if finite else predict_rows(first.equilibria, coarse)
                measured = finite.boundary if finite else np.full(len(coarse.momentum), np.nan)
                wanted = learning_rates(plan, expected, measured, done.rates)
                chosen = plan_sampled(plan, finite, coarse, wanted)
                report = run(SAMPLED, chosen.chunks)
            done.seed_steps_here, done.sampling_compile_seconds = report.size, sampling.seconds
            done.sampled = collect_sampled(plan, chosen, store, report)
    done.seconds = time.perf_counter() - started
    done.compile_seconds = clock.split(done.seconds)["compile"]
    return done


def _theory(plan: SweepPlan, dynamics: str, cells: Hyper, progress: Progress) -> Drift:
    name = drift_name(plan.learner, dynamics)
    with progress.stage(f"fixed point and stiffness, {name}"):
        equilibria = _find_equilibria(plan, dynamics)
    with progress.stage(f"theory, {name}") as advance:
        return Drift(dynamics, name, equilibria, cells, predict_rows(equilibria, cells, advance))


def _find_equilibria(plan: SweepPlan, dynamics: str) -> tuple[Equilibrium, ...]:
    """Fixed point and stiffness of a drift at every KL weight of the grid."""
    equilibria = []
    for weight in map(float, plan.kl_weight):
        point = measure.find_fixed_point(plan.learner, dynamics, weight)
        report = measure.measure_stiffness(plan.learner, dynamics, weight, point) if point.exists else None
        linear = linearise(plan.learner, dynamics, weight, point)
        equilibria.append(Equilibrium(dynamics, weight, point, report, linear))
    return tuple(equilibria)


def _fine_learning_rates(plan: SweepPlan, predicted: list[Predicted]) -> np.ndarray:
    """The grid's learning rates; where they were left open, a range laid out from the stiffness alone.

    It reaches from the law and the leading-order oscillator's onset up to where an undelayed update flips.
    """
    if plan.learning_rate is not None:
        return plan.learning_rate
    lines = [values(column) for p in predicted for column in (p.law, p.undelayed, p.oscillator_onset)]
    low, high = _learning_rate_range(np.concatenate(lines).tolist())
    spec = {"start": low, "stop": high, **plan.learning_rate_spec}
    return axis("sweep.learning_rate", "learning_rate", spec, {})


def _learning_rate_range(thresholds: Iterable[float]) -> tuple[float, float]:
    """A range of learning rates that holds all positive finite `thresholds` with room on both sides, two digits."""
    known = [t for t in thresholds if math.isfinite(t) and t > 0]
    if not known:
        return 1e-3, 10.0
    return float(f"{min(known) / 2:.1e}"), float(f"{max(known) * 2:.1e}")


def _measured(
    plan: SweepPlan, drift: Drift, rates: np.ndarray, store: ChunkStore, run: Callable[[str, Sequence[Work]], Report]
) -> DriftResult:
    """Thresholds, onsets and outcomes of every row; NaN where no job has them, with the reason where one failed."""
    cells, count = drift.cells, len(drift.cells.momentum)
    reasons: list[str | None] = [None] * count
    found = []
    for kind, work in rows_work(plan, drift, rates).items():
        value, on_grid = np.full(count, np.nan), np.full((count, len(rates)), np.nan)
        report = run(kind, work)
        for i, (job, key) in enumerate(zip(work, report.keys, strict=True)):
            if reason := report.failed.get(i):
                for row in job.rows:
                    reasons[row] = reasons[row] or reason
            else:
                arrays = store.load(key)
                value[job.rows], on_grid[job.rows] = arrays["value"], arrays["on_grid"]
        found.append((value, on_grid))
    (boundary, growth), (onset, rings) = found
    lost = np.where(growth[:, 0] > 0, rates[0], boundary)  # the grid may begin where stability is lost already
    onset = np.where(onset > lost * (1 + SAME), np.nan, onset)
    for equilibrium in drift.equilibria:
        mine = np.flatnonzero(cells.kl_weight == equilibrium.kl_weight)
        if reason := unmeasured_reason(plan, equilibrium):
            for row in mine:
                reasons[row] = reason
        if equilibrium.stiffness is not None and np.iscomplexobj(equilibrium.stiffness.relaxation):
            onset[mine] = np.nan  # a complex stiffness rings at every learning rate
    outcome = measure.classify_mean(growth, np.where(rings > 0, -1.0, 1.0))
    unknown = np.isnan(rings) & ~(growth > 0)  # nothing was measured, or a decay may ring for all that is known
    outcome = np.where(unknown, Outcome.UNDECIDED, outcome).astype(np.int8)
    outcome[[reason is not None for reason in reasons]] = Outcome.UNDECIDED
    why = measure.unsampled_reason(plan.learner, cells.refresh_interval)
    return DriftResult(**vars(drift), boundary=boundary, onset=onset, growth=growth, rings=rings, outcome=outcome,
                       reasons=reasons, no_onset=why)  # fmt: skip
