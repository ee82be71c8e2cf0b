"""`sweep`: a grid of training runs, the thresholds that they show, and the theory beside both."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab import measure
from bandit_lab._types import Outcome
from bandit_lab.app import engine
from bandit_lab.app.chunks import (
    Attempts,
    ChunkStore,
    Report,
    RunLock,
    Work,
    hash_of,
    run_chunks,
)
from bandit_lab.app.folder import store
from bandit_lab.app.folder.store import NOT_HASHED, CompileClock, RunFolder, peak_memory_bytes
from bandit_lab.app.result import Result, Value, plain, show
from bandit_lab.app.terminal.output import Progress, bad_input, stopped_by_disk
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict.linear import linearise
from bandit_lab.lab.sweep.dataset import dataset, streams
from bandit_lab.lab.sweep.jobs import (
    SAME,
    SAMPLED,
    Computed,
    Drift,
    DriftResult,
    Equilibrium,
    Predicted,
    predict_rows,
    rows,
    rows_work,
    stable_again,
    values,
)
from bandit_lab.lab.sweep.plan import SweepPlan, axis, prepare
from bandit_lab.lab.sweep.report import figures_of, result_of
from bandit_lab.lab.sweep.sampled import collect_sampled, learning_rates, plan_sampled
from bandit_lab.measure import displaced
from bandit_lab.simulation import UNIT, drift_name, fast
from bandit_lab.simulation.engine import WIDTH

__all__ = ["check_folder", "execute", "figures_of", "prepare"]


def check_folder(plan: SweepPlan, folder: Path) -> None:
    """Raise ValueError if the folder holds a run of another configuration. Only reads."""
    store.state_of(folder, _settings_of(plan), plan.settings.overwrite)


def execute(plan: SweepPlan, folder: RunFolder, progress: Progress) -> Result | None:
    """Run the sweep or what is left of it, print its tables, write the run folder.

    Returns:
      What was found, `incomplete` where some chunks failed; None where nothing was left to do.

    Raises:
      BadInput: another process works in the folder, it holds another run, or the engine has nobody who could compute.
      Stopped: the folder cannot be written, or the engine is gone; what is finished is kept.
    """
    chunks, settings = ChunkStore(folder.path), _settings_of(plan)
    with contextlib.ExitStack() as stack:
        with bad_input(), stopped_by_disk(folder.path):
            stack.enter_context(RunLock(chunks.folder).hold())
            state = store.state_of(folder.path, settings, plan.settings.overwrite)
        with stopped_by_disk(folder.path):
            if state == store.FINISHED:
                chunks.remove()
                show("finished already: nothing is left to do (overwrite=true computes it anew)")
                return None
            opened = engine.chosen(plan.settings).opened
            with bad_input():
                attempts = stack.enter_context(opened(plan.settings.plugins))
            if state == store.NEW:
                chunks.clear()
            folder.open(asdict(plan.settings), keep_chunks=True)
            chunks.open(settings)
            done = _compute_all(plan, chunks, progress, attempts)
            result = _write(plan, folder, chunks, settings, progress, done)
            if not done.failed:
                chunks.remove()
    if not done.failed:
        return result
    place, reason = next(iter(done.failed.items()))
    more = f" and {len(done.failed) - 1} more" if len(done.failed) > 1 else ""
    return replace(result, incomplete=f"failed, null in the results: {place} ({reason}){more}")


def _settings_of(plan: SweepPlan) -> dict[str, Any]:
    """Everything that decides the results: two sweeps with the same may share a folder."""
    hashed = {name: value for name, value in asdict(plan.settings).items() if name not in NOT_HASHED}
    names = ("momentum", "kl_weight", "refresh_interval", "learning_rate", "learning_rate_spec", "sampled_momentum")
    axes = {name: getattr(plan, name) for name in (*names, "sampled_interval", "multiples", "steps_given")}
    return plain({"command": "sweep", "settings": hashed, "axes": axes, "width": _block_width()})


def _block_width() -> dict[str, int]:
    """The fixed widths of blocks that results depend on, to the last bit."""
    width = {f"{name}_{part}": getattr(w, part) for name, w in WIDTH.items() for part in ("cells", "seeds")}
    width |= {f"displaced_{name}_cells": cells for name, cells in displaced.WIDTH.items()}
    return width | {"unit_seeds": UNIT, **fast.WIDTH}


def _write(
    plan: SweepPlan,
    folder: RunFolder,
    chunks: ChunkStore,
    settings: dict[str, Any],
    progress: Progress,
    done: Computed,
) -> Result:
    """Write the run folder, the manifest last, and print the tables."""
    counts = done.counts()
    work = {"throughput": _throughput(plan, progress, done), "chunks": counts}
    resolved = asdict(plan.settings) | {"sweep": plan.axes(done.rates)}
    folder.write_config(resolved)
    with progress.stage("examples"):
        results = dataset(plan, done)
    result = result_of(plan, done, work, results)
    with progress.stage("writing"):
        folder.write_results(results, streams(plan, done.sampled))
        if plan.settings.pictures:
            folder.write_files({f"{figure.name}.png": figure.png() for figure in figures_of(results)})
        folder.write_summary(result.to_dict())
    wall = time.perf_counter() - done.started
    seconds = {"wall": wall, "compile": done.compile_seconds, "run": wall - done.compile_seconds}
    more = {"chunks": counts, "settings_hash": hash_of(settings)}
    folder.finish("sweep", resolved, seconds, progress.seconds, _block_width(), **more)
    result.show()
    return result


def _throughput(plan: SweepPlan, progress: Progress, done: Computed) -> dict[str, Any]:
    """How much was simulated, how fast. Seed-steps per second are those of this process, compilation left out."""
    lengths = [plan.sampled_steps(float(m), float(n)) for m in plan.sampled_momentum for n in plan.sampled_interval]
    seed_steps = sum(lengths) * len(plan.kl_weight) * len(plan.multiples) * plan.settings.seeds
    busy = progress.seconds.get(SAMPLED, 0.0) - done.sampling_compile_seconds
    rate = done.seed_steps_here / busy if done.seed_steps_here and busy > 0 else None
    missing = "no sampled runs in this process" if seed_steps else "no sampled runs"
    return {
        "seed_steps": seed_steps,
        "seed_steps_per_second": Value.of(rate, missing, "1/s"),
        "compile_seconds": done.compile_seconds,
        "run_seconds": done.seconds - done.compile_seconds,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def _compute_all(plan: SweepPlan, store: ChunkStore, progress: Progress, attempts: Attempts) -> Computed:
    """Theory of the rows, then what is measured of them in jobs, then sampled runs where the thresholds lie.

    attempts: of an engine, by which the jobs are computed.
    """
    started = time.perf_counter()

    def run(kind: str, work: Sequence[Work]) -> Report:
        with progress.stage(kind) as advance:
            report = run_chunks(store, work, advance, attempts)
        done.stored, done.computed = done.stored + report.found, done.computed + report.computed
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
        measured.append((value, on_grid))
    (boundary, growth), (onset, rings) = measured
    lost = np.where(growth[:, 0] > 0, rates[0], boundary)  # the grid may begin where stability is lost already
    onset = np.where(onset > lost * (1 + SAME), np.nan, onset)
    for equilibrium in drift.equilibria:
        mine = np.flatnonzero(cells.kl_weight == equilibrium.kl_weight)
        if reason := equilibrium.unmeasured(plan.learner):
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
            linear = drift.equilibrium(float(cells.kl_weight[row])).linear
            loop = linear.loop(float(cells.momentum[row]), cells.refresh_interval[row].item())
            again[row] = stable_again(loop, exact.value, rates)
    why = measure.unsampled_reason(plan.learner, cells.refresh_interval)
    return DriftResult(**vars(drift), boundary=boundary, onset=onset, growth=growth, rings=rings, outcome=outcome,
                       reasons=reasons, stable_again=again, no_onset=why)  # fmt: skip
