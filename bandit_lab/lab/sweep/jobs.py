"""The rows of a sweep by the theory, and what is left to be measured, cut into jobs: thresholds of some rows here,
sampled runs of some cells over a range of seeds in `sampled`.

A job's size is chosen so that it takes seconds; results do not depend on it, because rows and cells are independent
of their neighbours and seeds are pooled in units (`simulation.results`).
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab import measure
from bandit_lab.app.chunks import Attempts, ChunkStore, Report, Work, run_chunks
from bandit_lab.app.folder.store import CompileClock, peak_memory_bytes
from bandit_lab.app.progress import Progress
from bandit_lab.app.result import Value
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict.fixed_point import LinearTheory, linearise
from bandit_lab.lab.sweep.plan import SweepPlan, axis
from bandit_lab.lab.sweep.sampled import (
    SAMPLED,
    RunsWork,
    SampledResult,
    collect_sampled,
    identity_of,
    learning_rates,
    plan_sampled,
    span,
)
from bandit_lab.loop import Loop, RateCrossing, Reason, response_of
from bandit_lab.measure import FixedPoint, StiffnessReport, displaced
from bandit_lab.measure.growth import PERIODS, time_scale
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import drift_name

__all__ = ["Computed", "Drift", "DriftResult", "Equilibrium", "RowsWork", "RunsWork", "compute"]

SAME = 1e-3  # an onset this close above the threshold is the threshold itself, crossed with a negative multiplier
NO_RINGING = "stability is lost before any oscillation"
_NO_MEASURE = "the optimiser {} has no noise-free fixed point to displace a run from"
BOUNDARY, ONSET = "boundary", "onset of oscillation"
_ROW_CELLS = 2**14  # rows x learning rates of a job of thresholds: about ten seconds with compilation


@dataclass(frozen=True)
class Equilibrium:
    """One drift at one KL weight: its fixed point and stiffness, measured, and the theory's view of the same.

    unmeasured: why its rows have no measured thresholds, or None.
    """

    dynamics: str
    kl_weight: float
    point: FixedPoint
    stiffness: StiffnessReport | None
    linear: LinearTheory
    unmeasured: str | None


@dataclass(frozen=True)
class Predicted:
    """Closed-form values, one list entry per row."""

    law: list[RateCrossing]
    exact: list[RateCrossing]
    onset: list[RateCrossing]
    oscillator_onset: list[RateCrossing]
    undelayed: list[RateCrossing]


@dataclass(frozen=True)
class Drift:
    """Rows of one drift, before anything is measured: every combination of momentum, KL weight and refresh interval, in
    that order. equilibria: by KL weight. cells: Hyper of arrays [R] (learning rate unused)."""

    dynamics: str
    name: str
    equilibria: dict[float, Equilibrium]
    cells: Hyper
    predicted: Predicted


@dataclass(frozen=True)
class DriftResult(Drift):
    """The same rows measured.

    boundary, onset: [R]; NaN where `reasons` says why. On the learning rates of the grid, [R, L] each: growth per step,
    rings > 0 where the stiffest mode's dominant pole is not real and positive, outcome codes. stable_again: [R] windows
    as `_stable_again` finds them. no_onset: why no onset of oscillation can be measured, or None.
    """

    boundary: np.ndarray
    onset: np.ndarray
    growth: np.ndarray
    rings: np.ndarray
    outcome: np.ndarray
    reasons: list[str | None]
    stable_again: list[list[list[float]]]
    no_onset: str | None = None


@dataclass(frozen=True)
class Computed:
    """Learning rates of the grid, one result per drift, the sampled runs; and what this process did of it.

    drawn: of the lines of the diagrams. chunks, throughput: as `summary.json` has them.
    """

    rates: np.ndarray
    drifts: list[DriftResult]
    drawn: Predicted
    sampled: SampledResult | None
    chunks: dict[str, Any]
    throughput: dict[str, Any]


def predict_rows(
    equilibria: Mapping[float, Equilibrium],
    cells: Hyper,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Predicted:
    """Law, exact threshold and onset of every row."""
    result = Predicted([], [], [], [], [])
    total = len(cells.momentum)
    for i, (momentum, weight, interval) in enumerate(
        zip(cells.momentum, cells.kl_weight, cells.refresh_interval, strict=True)
    ):
        linear, setting = equilibria[float(weight)].linear, (interval.item(), float(momentum))
        exact, onset = linear.rate("threshold", *setting), linear.rate("onset", *setting)
        late = exact.value is not None and onset.value is not None and onset.value > exact.value * (1 + SAME)
        result.law.append(linear.rate("law", *setting))
        result.exact.append(exact)
        result.onset.append(RateCrossing(None, None, NO_RINGING) if late else onset)
        result.oscillator_onset.append(linear.rate("oscillator_onset", *setting))
        result.undelayed.append(linear.rate("undelayed", *setting))
        progress(i + 1, total)
    return result


def _stable_again(loop: Loop, threshold: float, rates: np.ndarray) -> list[list[float]]:
    """Windows [low, high] of learning rates beyond the exact threshold in which the loop is stable again.

    rates: rising. A window, or the space between two, that is narrower than their step is passed over. One in which
    they end, ends there.
    """

    def stable(rate: float) -> bool:
        multipliers = loop.multipliers(rate)
        return not isinstance(multipliers, Reason) and bool(abs(multipliers[0]) < 1)

    def change(low: float, high: float, inside: bool) -> float:
        """Between two learning rates, of which the second is `inside` a window or is not."""
        while low < (middle := math.sqrt(low * high)) < high and high - low > 1e-12 * high:
            low, high = (low, middle) if stable(middle) == inside else (middle, high)
        return high

    windows: list[list[float]] = []
    before, was = threshold, False
    for rate in rates[rates > threshold].tolist():
        if (now := stable(rate)) and not was:
            windows.append([change(before, rate, now), rates[-1].item()])
        elif was and not now:
            windows[-1][1] = change(before, rate, now)
        before, was = rate, now
    return windows


def values(column: list[RateCrossing]) -> np.ndarray:
    """Values [R], NaN where there are none."""
    return np.array([np.nan if v.value is None else v.value for v in column])


@dataclass(frozen=True)
class RowsWork:
    """Boundary or onset of some rows [R] of one drift at one KL weight, on the learning rates of the grid [L].

    rows: [R] their places among all rows of the drift. Arrays: value [R], on_grid [R, L].
    """

    plan: SweepPlan
    detector: str
    drift: str
    equilibrium: Equilibrium
    rows: np.ndarray
    cells: Hyper
    rates: np.ndarray

    @property
    def kind(self) -> str:
        return f"{self.detector}, {self.drift}"

    @property
    def what(self) -> str:
        return f"{span('mu', self.cells.momentum)}, {span('N', self.cells.refresh_interval)}, beta {self.weight:g}"

    @property
    def weight(self) -> float:
        return self.equilibrium.kl_weight

    @property
    def size(self) -> float:
        return float(len(self.rates) * np.sum(time_scale(self.cells)))

    def identity(self) -> dict[str, Any]:
        return identity_of(self.plan, self.cells) | {
            "dynamics": self.equilibrium.dynamics,
            "learning_rates": self.rates.tolist(),
            "width": displaced.width_of(self.plan.learner, self.equilibrium.dynamics),
            "runs": [displaced.STEPS, PERIODS],
        }

    def compute(self) -> Mapping[str, np.ndarray]:
        """From runs of the nonlinear mean update alone: where a displacement begins to grow, or along the stiffest mode
        to oscillate."""
        at, rates = self.equilibrium, self.rates
        several = rates if len(rates) > 1 else np.array([rates[0], rates[0] * 1.001])
        assert at.point.theta is not None
        place = (self.plan.learner, at.dynamics, self.cells, np.tile(at.point.theta, (len(self.rows), 1)))
        if self.detector == BOUNDARY:
            boundary = measure.learning_rate_boundary(*place, measure.generic_direction(at.point.basis), several)
        else:
            assert at.stiffness is not None
            mode = measure.stiffest_mode(at.stiffness.relaxation_matrix, at.point.basis)
            boundary = measure.learning_rate_onset(*place, *mode, several)
        if len(rates) > 1:
            return {"value": boundary.value, "on_grid": boundary.on_grid}
        return {"value": np.full_like(boundary.value, np.nan), "on_grid": boundary.on_grid[:, :1]}


def _rows_work(plan: SweepPlan, drift: Drift, rates: np.ndarray) -> dict[str, list[RowsWork]]:
    """kind -> chunks of every row that can be measured: boundaries first, onsets second."""
    length = plan.settings.chunk.rows or max(1, _ROW_CELLS // len(rates))
    result: dict[str, list[RowsWork]] = {f"{detector}, {drift.name}": [] for detector in (BOUNDARY, ONSET)}
    for equilibrium in drift.equilibria.values():
        if equilibrium.unmeasured:
            continue
        mine = np.flatnonzero(drift.cells.kl_weight == equilibrium.kl_weight)
        for detector, chunks in zip((BOUNDARY, ONSET), result.values(), strict=True):
            if detector == ONSET and measure.unsampled_reason(plan.learner, drift.cells.refresh_interval):
                continue
            for rows in (mine[i : i + length] for i in range(0, len(mine), length)):
                cells = Hyper(*(np.asarray(column)[rows] for column in drift.cells))
                chunks.append(RowsWork(plan, detector, drift.name, equilibrium, rows, cells, rates))
    return result


def compute(plan: SweepPlan, store: ChunkStore, progress: Progress, attempts: Attempts) -> Computed:
    """Theory of the rows, then what is measured of them in jobs, then sampled runs where the thresholds lie.

    attempts: of an engine, by which the jobs are computed.
    """
    chunks: dict[str, Any] = {"total": 0, "found": 0, "computed_here": 0, "failed": [], "seconds": 0.0}

    def run(kind: str, work: Sequence[Work]) -> Report:
        with progress.stage(kind) as advance:
            report = run_chunks(store, work, advance, attempts)
        chunks["total"] += len(work)
        chunks["found"] += report.found
        chunks["computed_here"] += report.computed
        chunks["failed"] += [
            {"chunk": f"{kind}: {work[i].what}", "reason": reason} for i, reason in report.failed.items()
        ]
        chunks["seconds"] = round(chunks["seconds"] + report.seconds, 3)
        return report

    started, sampled, rate = time.perf_counter(), None, None
    with CompileClock() as clock:
        coarse = plan.sampled_rows
        theory = [_theory(plan, *of, progress) for of in zip(plan.drifts, (plan.rows, coarse), strict=False)]
        drawn = predict_rows(theory[0].equilibria, plan.drawn_rows)
        rates = _fine_learning_rates(plan, [drift.predicted for drift in theory])
        drifts = [_measured(plan, drift, rates, store, run) for drift in theory]
        if len(coarse.momentum):
            with CompileClock() as sampling:
                finite = drifts[1] if len(drifts) > 1 else None
                exact = values(finite.predicted.exact if finite else predict_rows(drifts[0].equilibria, coarse).exact)
                measured = finite.boundary if finite else np.full(len(exact), np.nan)
                wanted = learning_rates(plan, np.where(exact > 0, exact, measured), rates)
                chosen = plan_sampled(plan, finite.equilibria if finite else {}, wanted)
                report = run(SAMPLED, chosen.chunks)
            busy = progress.seconds[SAMPLED] - sampling.seconds
            rate = report.size / busy if report.size and busy > 0 else None
            sampled = collect_sampled(plan, chosen, store, report)
    seconds = clock.split(time.perf_counter() - started)
    seed_steps = int(plan.sampled_steps.sum()) * len(plan.multiples) * plan.settings.seeds
    missing = "no sampled runs in this process" if seed_steps else "no sampled runs"
    throughput = {
        "seed_steps": seed_steps,
        "seed_steps_per_second": Value.of(rate, missing, "1/s"),  # of this process, compilation left out
        "compile_seconds": seconds["compile"],
        "run_seconds": seconds["run"],
        "peak_memory_bytes": peak_memory_bytes(),
    }
    return Computed(rates, drifts, drawn, sampled, chunks, throughput)


def _theory(plan: SweepPlan, dynamics: str, cells: Hyper, progress: Progress) -> Drift:
    """Fixed point and stiffness of a drift at every KL weight of the grid, and the theory of its rows."""
    name, equilibria = drift_name(plan.learner, dynamics), {}
    convention, response = plan.learner.optimizer.convention, response_of(plan.learner.optimizer, 0.5)
    unmeasured = _NO_MEASURE.format(convention) if response is None else None
    unmeasured = Reason.DRAWN if plan.learner.staleness.drawn else unmeasured
    with progress.stage(f"fixed point and stiffness, {name}"):
        for weight in map(float, plan.kl_weight):
            point = measure.find_fixed_point(plan.learner, dynamics, weight)
            report = measure.measure_stiffness(plan.learner, dynamics, weight, point) if point.exists else None
            linear = linearise(plan.learner, dynamics, weight, point)
            equilibria[weight] = Equilibrium(dynamics, weight, point, report, linear, point.reason or unmeasured)
    with progress.stage(f"theory, {name}") as advance:
        return Drift(dynamics, name, equilibria, cells, predict_rows(equilibria, cells, advance))


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
    finite = [t for t in thresholds if math.isfinite(t) and t > 0]
    if not finite:
        return 1e-3, 10.0
    return float(f"{min(finite) / 2:.1e}"), float(f"{max(finite) * 2:.1e}")


def _measured(
    plan: SweepPlan, drift: Drift, rates: np.ndarray, store: ChunkStore, run: Callable[[str, Sequence[Work]], Report]
) -> DriftResult:
    """Thresholds, onsets and outcomes of every row; NaN where no job has them, with the reason where one failed."""
    cells, count = drift.cells, len(drift.cells.momentum)
    reasons: list[str | None] = [None] * count
    measured = []
    for kind, work in _rows_work(plan, drift, rates).items():
        value, on_grid = np.full(count, np.nan), np.full((count, len(rates)), np.nan)
        report = run(kind, work)
        for i, (job, key) in enumerate(zip(work, report.keys, strict=True)):
            if reason := report.failed.get(i):
                for row in job.rows:
                    reasons[row] = reasons[row] or reason
            else:
                arrays = store.load(key)
                value[job.rows], on_grid[job.rows] = arrays["value"], arrays["on_grid"]
        measured.append((value, on_grid))
    (boundary, growth), (onset, rings) = measured
    lost = np.where(growth[:, 0] > 0, rates[0], boundary)  # the grid may begin where stability is lost already
    onset = np.where(onset > lost * (1 + SAME), np.nan, onset)
    for equilibrium in drift.equilibria.values():
        mine = np.flatnonzero(cells.kl_weight == equilibrium.kl_weight)
        if reason := equilibrium.unmeasured:
            for row in mine:
                reasons[row] = reason
        if equilibrium.stiffness is not None and np.iscomplexobj(equilibrium.stiffness.relaxation):
            onset[mine] = np.nan  # a complex stiffness rings at every learning rate
    outcome = measure.classify_mean(growth, np.where(rings > 0, -1.0, 1.0))
    unknown = np.isnan(rings) & ~(growth > 0)  # nothing was measured, or a decay may ring for all that is known
    outcome = np.where(unknown, Outcome.UNDECIDED, outcome).astype(np.int8)
    outcome[[reason is not None for reason in reasons]] = Outcome.UNDECIDED
    again: list[list[list[float]]] = [[] for _ in range(count)]
    for row, exact in enumerate(drift.predicted.exact):
        if exact.value and np.any(growth[row, rates > exact.value] < 0):
            linear = drift.equilibria[float(cells.kl_weight[row])].linear
            loop = linear.loop(float(cells.momentum[row]), cells.refresh_interval[row].item())
            again[row] = _stable_again(loop, exact.value, rates)
    why = measure.unsampled_reason(plan.learner, cells.refresh_interval)
    return DriftResult(
        **vars(drift),
        boundary=boundary,
        onset=onset,
        growth=growth,
        rings=rings,
        outcome=outcome,
        reasons=reasons,
        stable_again=again,
        no_onset=why,
    )
