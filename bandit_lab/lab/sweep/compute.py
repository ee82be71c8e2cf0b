"""The order of a sweep's work: theory, jobs that are kept, and example runs on both sides of both boundaries."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import measure, theory
from bandit_lab._types import Outcome
from bandit_lab.app.chunks import (
    Attempts,
    ChunkStore,
    Report,
    Work,
    one_after_another,
    run_chunks,
)
from bandit_lab.app.folder.manifest import CompileClock
from bandit_lab.app.settings import grid
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper
from bandit_lab.lab.sweep.jobs import (
    SAME,
    SAMPLED,
    Drift,
    Predicted,
    find_equilibria,
    no_onset,
    predict_rows,
    rows,
    rows_work,
    unmeasured_reason,
    values,
)
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.lab.sweep.sampled import SampledResult, collect_sampled, learning_rates, plan_sampled
from bandit_lab.simulation import drift_name, trajectories


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
        if plan.sampled_rows:
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
        equilibria = find_equilibria(plan, dynamics)
    with progress.stage(f"theory, {name}") as advance:
        return Drift(dynamics, name, equilibria, cells, predict_rows(equilibria, cells, advance))


def _fine_learning_rates(plan: SweepPlan, predicted: list[Predicted]) -> np.ndarray:
    """The grid's learning rates; where they were left open, a range laid out from the stiffness alone.

    It reaches from the law and the leading-order oscillator's onset up to where an undelayed update flips.
    """
    if plan.learning_rate is not None:
        return plan.learning_rate
    lines = [values(column) for p in predicted for column in (p.law, p.undelayed, p.oscillator_onset)]
    low, high = grid.learning_rate_range(np.concatenate(lines).tolist())
    spec = {"start": low, "stop": high, **plan.learning_rate_spec}
    return grid.axis("sweep.learning_rate", "learning_rate", spec, {})


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
    why = no_onset(plan, cells)
    return DriftResult(**vars(drift), boundary=boundary, onset=onset, growth=growth, rings=rings, outcome=outcome,
                       reasons=reasons, no_onset=why)  # fmt: skip


EXAMPLES = ("below the onset", "above the onset", "below the threshold", "above the threshold")
DISPLACEMENT = 0.2  # logits, along the stiffest mode
PREFERRED_INTERVAL = 8
LONGEST = 20_000


def example_runs(plan: SweepPlan, drift: DriftResult) -> dict[str, Any]:
    """Four runs of the mean update from rest, a small displacement from the fixed point, on both sides of both
    boundaries, as variables of a data set; none where a boundary is missing.

    Beside each run are the oscillator whose lag is the refresh interval (the published one), and the one whose lag is
    the mean age of the acting policy; `example_length` are the steps worth showing.
    """
    cells, at = drift.cells, drift.equilibria[0]
    momentum = float(plan.momentum[-1])
    near = np.argmin(np.abs(np.log((plan.refresh_interval + 0.1) / PREFERRED_INTERVAL)))
    interval = plan.refresh_interval[near].item()
    mine = (cells.momentum == momentum) & (cells.refresh_interval == interval) & (cells.kl_weight == at.kl_weight)
    row = int(np.flatnonzero(mine)[0])
    onset, threshold = float(drift.onset[row]), float(drift.boundary[row])
    if at.stiffness is None or not (np.isfinite(onset) and np.isfinite(threshold) and onset < threshold):
        return {}
    rates = np.array([0.5 * onset, np.sqrt(onset * threshold), 0.9 * threshold, 1.1 * threshold])
    lengths = _lengths(rates, momentum, interval, at.stiffness.largest)
    longest = int(lengths.max())
    hyper = Hyper(rates, *(np.full(4, value) for value in (momentum, interval, at.kl_weight)))
    start = _displaced(plan, drift)
    runs = trajectories(plan.learner, drift.dynamics, hyper, steps=longest, dtype=np.float64, initial=start)[:, 0]
    curves = [_oscillators(drift, runs[i, 0], float(rates[i]), momentum, interval, longest) for i in range(4)]
    law, mean_age = (np.array(column) for column in zip(*curves, strict=True))
    about = {"units": "reward", "drift": drift.name, "fixed_point": at.point.expected_reward, "momentum": momentum,
             "refresh_interval": interval}  # fmt: skip
    plane = ("example", "example_step")
    return {
        "example_learning_rate": ("example", rates, {"units": "logits per unit gradient"}),
        "example_length": ("example", lengths, {"units": "steps"}),
        "example_reward": (plane, runs, about),
        "example_oscillator_law": (plane, law, about),
        "example_oscillator_mean_age": (plane, mean_age, about),
    }


def _lengths(rates: np.ndarray, momentum: float, interval: float, stiffness: float) -> np.ndarray:
    """Steps to show: several relaxation times at small rates, several periods near the threshold."""
    memory = max(interval, 1) + 1 / (1 - momentum)
    relaxation = (1 - momentum) / (rates * stiffness)
    shown = np.array([5 * relaxation[0], 8 * memory + 4 * relaxation[1], 16 * memory, 16 * memory])
    return np.clip(np.ceil(shown), 10, LONGEST).astype(int)


def _displaced(plan: SweepPlan, drift: DriftResult) -> np.ndarray:
    """Parameters a little away from the fixed point, on the side of smaller reward."""
    equilibrium = drift.equilibria[0]
    assert equilibrium.stiffness is not None
    assert equilibrium.point.theta is not None
    direction, _ = measure.stiffest_mode(equilibrium.stiffness.relaxation_matrix, equilibrium.point.basis)
    step = DISPLACEMENT * direction / np.linalg.norm(direction)
    slope = (
        jax.grad(lambda theta: expected_reward(plan.learner.bandit, theta))(jnp.asarray(equilibrium.point.theta)) @ step
    )
    return equilibrium.point.theta - np.sign(slope) * step


def _oscillators(
    drift: DriftResult, start: float, rate: float, momentum: float, interval: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Expected reward [T + 1] by the oscillator with lag N and with the mean age, both from rest.

    NaN where the theory does not know the optimiser, or a staleness model's mean age.
    """
    linear, final = drift.equilibria[0].linear, drift.equilibria[0].point.expected_reward
    time = jnp.arange(steps + 1.0)
    result = []
    if linear.unsupported_reason():
        return np.full(steps + 1, np.nan), np.full(steps + 1, np.nan)
    loop = linear.loop(momentum, interval)
    heavier = 0.5 * loop.optimizer.inertia[0] / rate  # the symmetric mass
    for lag in (loop.lag, float(loop.rule.ages.mean())):
        mass, damping, stiffness = loop.oscillator(rate, lag)
        osc = theory.Oscillator(mass + heavier, damping, stiffness)
        with np.errstate(over="ignore", invalid="ignore"):
            result.append(np.asarray(theory.response(osc, time, start, final)))
    return result[0], result[1]
