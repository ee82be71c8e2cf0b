"""`sweep`: a grid of training runs, the thresholds that they show, and the theory beside both."""

import contextlib
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bandit_lab.app import engine
from bandit_lab.app.chunks import ChunkStore, RunLock, hash_of
from bandit_lab.app.folder import store
from bandit_lab.app.folder.store import NOT_HASHED, RunFolder, peak_memory_bytes
from bandit_lab.app.result import Result, Value, plain, show
from bandit_lab.app.terminal.errors import bad_input, stopped_by_disk
from bandit_lab.app.terminal.output import Progress
from bandit_lab.lab.sweep.compute import Computed, compute_all
from bandit_lab.lab.sweep.dataset import dataset, streams
from bandit_lab.lab.sweep.jobs import SAMPLED
from bandit_lab.lab.sweep.plan import SweepPlan, prepare
from bandit_lab.lab.sweep.report import figures_of, result_of
from bandit_lab.measure import displaced
from bandit_lab.simulation import UNIT, fast
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
            done = compute_all(plan, chunks, progress, attempts)
            found = _write(plan, folder, chunks, settings, progress, done)
            if not done.failed:
                chunks.remove()
    if not done.failed:
        return found
    place, reason = next(iter(done.failed.items()))
    more = f" and {len(done.failed) - 1} more" if len(done.failed) > 1 else ""
    return replace(found, incomplete=f"failed, null in the results: {place} ({reason}){more}")


def _settings_of(plan: SweepPlan) -> dict[str, Any]:
    """Everything that decides the results: two sweeps with the same may share a folder."""
    kept = {name: value for name, value in asdict(plan.settings).items() if name not in NOT_HASHED}
    names = ("momentum", "kl_weight", "refresh_interval", "learning_rate", "learning_rate_spec", "sampled_momentum")
    axes = {name: getattr(plan, name) for name in (*names, "sampled_interval", "multiples", "steps_given")}
    return plain({"command": "sweep", "settings": kept, "axes": axes, "width": _block_width()})


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
    found = result_of(plan, done, work, results)
    with progress.stage("writing"):
        folder.write_results(results, streams(plan, done.sampled))
        if plan.settings.pictures:
            folder.write_files({f"{figure.name}.png": figure.png() for figure in figures_of(results)})
        folder.write_summary(found.to_dict())
    wall = time.perf_counter() - done.started
    seconds = {"wall": wall, "compile": done.compile_seconds, "run": wall - done.compile_seconds}
    more = {"chunks": counts, "settings_hash": hash_of(settings)}
    folder.finish("sweep", resolved, seconds, progress.seconds, _block_width(), **more)
    found.show()
    return found


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
