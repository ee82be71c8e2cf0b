"""`sweep`: a grid of training runs, the thresholds that they show, and the theory beside both."""

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from bandit_lab.measure import displaced
from bandit_lab.simulate import drift_name
from bandit_lab.simulate.engine import WIDTH
from bandit_lab.study import grid, report, sweep_summary
from bandit_lab.study.clock import CompileClock
from bandit_lab.study.examples import make_examples
from bandit_lab.study.manifest import manifest, peak_memory_bytes
from bandit_lab.study.progress import Progress
from bandit_lab.study.store import RunFolder
from bandit_lab.study.sweep_dataset import dataset
from bandit_lab.study.sweep_exact import (
    DriftResult,
    Ground,
    Predicted,
    find_grounds,
    measure_rows,
    predict_rows,
    rows,
    values,
)
from bandit_lab.study.sweep_plan import SweepPlan, prepare
from bandit_lab.study.sweep_sampled import SampledResult, learning_rates, run_sampled

__all__ = ["execute", "prepare"]


def execute(plan: SweepPlan, folder: RunFolder, progress: Progress) -> None:
    """Run the sweep, print its tables, write the run folder."""
    start, clock, sampling = time.perf_counter(), CompileClock(), CompileClock()
    settings = asdict(plan.settings)
    folder.open(report.as_yaml(settings))
    with clock:
        rates, drifts, sampled = compute(plan, progress, sampling)
    summary = sweep_summary.summarise(plan, rates, drifts, sampled)
    wall = time.perf_counter() - start
    summary["throughput"] = throughput(plan, progress, clock, sampling, wall)
    resolved = settings | {"sweep": _axes(plan, rates)}
    folder.rewrite_config(report.as_yaml(resolved))
    with progress.stage("examples"):
        results = dataset(plan, rates, drifts, sampled, make_examples(plan, drifts[0]))
    with progress.stage("writing"):
        folder.write_results(results)
        if plan.settings.pictures:
            from bandit_lab.study.plots import draw_sweep

            draw_sweep(results, folder.path)
        folder.write_summary(summary)
    sweep_summary.print_summary(plan, summary)
    wall = time.perf_counter() - start
    seconds = {"wall": wall, "compile": clock.seconds, "run": wall - clock.seconds}
    width = {f"{name}_{part}": getattr(w, part) for name, w in WIDTH.items() for part in ("cells", "seeds")}
    width |= {f"displaced_{name}_cells": cells for name, cells in displaced.WIDTH.items()}
    stages = {name: round(value, 3) for name, value in progress.seconds.items()}
    folder.write_manifest(manifest("sweep", resolved, width, seconds) | {"stage_seconds": stages})


def compute(
    plan: SweepPlan, progress: Progress, sampling: CompileClock
) -> tuple[np.ndarray, list[DriftResult], SampledResult | None]:
    """(learning rates of the grid, one result per drift, the sampled runs); `sampling` times their compilation."""
    cells = rows(plan.momentum, plan.kl_weight, plan.refresh_interval)
    coarse = rows(plan.sampled_momentum, plan.kl_weight, plan.sampled_interval) if plan.sampled_rows else None
    grounds, predicted = [], []
    for dynamics in plan.drifts:
        with progress.stage(f"fixed point and stiffness, {drift_name(plan.learner, dynamics)}"):
            grounds.append(find_grounds(plan, dynamics))
        with progress.stage(f"theory, {drift_name(plan.learner, dynamics)}") as advance:
            part = cells if dynamics == plan.drifts[0] else coarse
            assert part is not None
            predicted.append(predict_rows(grounds[-1], part, advance))
    rates = fine_learning_rates(plan, predicted)
    drifts = [
        _measured(plan, grounds[i], predicted[i], cells if i == 0 else coarse, rates, progress)
        for i in range(len(plan.drifts))
    ]
    if coarse is None:
        return rates, drifts, None
    finite = drifts[1] if len(drifts) > 1 else None
    expected = finite.predicted if finite else predict_rows(grounds[0], coarse, lambda done, total: None)
    measured = finite.boundary if finite else np.full(len(coarse.momentum), np.nan)
    with progress.stage("sampled runs") as advance, sampling:
        chosen = learning_rates(plan, expected, measured, rates)
        sampled = run_sampled(plan, finite, coarse, chosen, advance)
    return rates, drifts, sampled


def _measured(
    plan: SweepPlan,
    grounds: tuple[Ground, ...],
    predicted: Predicted,
    cells: Any,
    rates: np.ndarray,
    progress: Progress,
) -> DriftResult:
    name = drift_name(plan.learner, grounds[0].dynamics)
    return measure_rows(plan, name, grounds, cells, predicted, rates, progress)


def fine_learning_rates(plan: SweepPlan, predicted: list[Predicted]) -> np.ndarray:
    """The grid's learning rates; where they were left open, a range that holds every threshold and onset."""
    if plan.learning_rate is not None:
        return plan.learning_rate
    lines = [values(column) for p in predicted for column in (p.law, p.exact, p.onset)]
    low, high = grid.learning_rate_range(np.concatenate(lines).tolist())
    spec = {"start": low, "stop": high, **plan.learning_rate_spec}
    return grid.axis("sweep.learning_rate", "learning_rate", spec, {})


def throughput(
    plan: SweepPlan, progress: Progress, clock: CompileClock, sampling: CompileClock, wall: float
) -> dict[str, Any]:
    """How much was simulated, how fast. Seed-steps are those of the sampled runs, compilation left out."""
    lengths = [plan.sampled_steps(float(m), float(n)) for m in plan.sampled_momentum for n in plan.sampled_interval]
    seed_steps = sum(lengths) * len(plan.kl_weight) * len(plan.multiples) * plan.settings.seeds
    busy = progress.seconds.get("sampled runs", 0.0) - sampling.seconds
    rate = seed_steps / busy if seed_steps and busy > 0 else None
    result: dict[str, Any] = {
        "seed_steps": seed_steps,
        "seed_steps_per_second": rate,
        "compile_seconds": clock.seconds,
        "run_seconds": wall - clock.seconds,
        "peak_memory_bytes": peak_memory_bytes(),
    }
    if rate is None:
        result["seed_steps_per_second_reason"] = "no sampled runs"
    return result


def _axes(plan: SweepPlan, rates: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "momentum": plan.momentum,
        "kl_weight": plan.kl_weight,
        "refresh_interval": plan.refresh_interval,
        "learning_rate": rates,
    }
