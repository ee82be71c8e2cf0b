"""`sweep`: a grid of training runs, the thresholds that they show, and the theory beside both."""

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from bandit_lab.app import engine
from bandit_lab.app.chunks import ChunkStore, RunLock, hash_of
from bandit_lab.app.folder import store
from bandit_lab.app.folder.store import NOT_HASHED, RunFolder
from bandit_lab.app.progress import Progress, bad_input, stopped_by_disk
from bandit_lab.app.result import Result, plain
from bandit_lab.lab.sweep import jobs
from bandit_lab.lab.sweep.jobs import Computed
from bandit_lab.lab.sweep.plan import SweepPlan, prepare
from bandit_lab.lab.sweep.report import dataset, figures_of, result_of, streams
from bandit_lab.measure import displaced
from bandit_lab.simulation import UNIT, fast
from bandit_lab.simulation.engine import WIDTH

__all__ = ["check_folder", "compute", "execute", "figures_of", "prepare"]


def check_folder(plan: SweepPlan, folder: Path) -> None:
    """Raise ValueError if the folder holds a run of another configuration. Only reads."""
    store.state_of(folder, _settings_of(plan), plan.settings.overwrite)


class _InMemory(ChunkStore):
    """The chunks of a run that has no folder."""

    def __init__(self) -> None:
        self._arrays: dict[str, dict[str, np.ndarray]] = {}

    def is_done(self, key: str) -> bool:
        return key in self._arrays

    def load(self, key: str) -> dict[str, np.ndarray]:
        return self._arrays[key]

    def save(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays[key] = dict(arrays)


def compute(plan: SweepPlan, progress: Progress) -> Result:
    """The whole sweep in memory, nothing written; `incomplete` where some chunks failed."""
    with engine.chosen(plan.settings).opened(plan.settings.plugins) as attempts:
        done = jobs.compute(plan, _InMemory(), progress, attempts)
    data, variables = dataset(plan, done), {}
    for stream in streams(plan, done.sampled):
        whole = stream.read(0, math.prod(stream.shape[:-1]), 0, stream.shape[-1])
        for name, (_, attributes) in stream.columns.items():
            variables[name] = (stream.dims, whole[name].reshape(stream.shape), attributes)
    return _with_failures(result_of(plan, done, data.assign(variables)), done)


def execute(plan: SweepPlan, folder: RunFolder, progress: Progress) -> Result | None:
    """Run the sweep or what is left of it, write the run folder.

    Returns:
      What was found, `incomplete` where some chunks failed; None where nothing was left to do.

    Raises:
      BadInput: another process works in the folder, it holds another run, or the engine has nobody who could compute.
      Stopped: the folder cannot be written, or the engine is gone; what is finished is kept.
    """
    chunks, settings = ChunkStore(folder.path), _settings_of(plan)
    opened = engine.chosen(plan.settings).opened
    with contextlib.ExitStack() as stack:
        with bad_input(), stopped_by_disk(folder.path):
            stack.enter_context(RunLock(chunks.folder).hold())
            state = store.state_of(folder.path, settings, plan.settings.overwrite)
        with stopped_by_disk(folder.path):
            if state == store.FINISHED:
                chunks.remove()
                return None
            with bad_input():
                attempts = stack.enter_context(opened(plan.settings.plugins))
            if state == store.NEW:
                chunks.clear()
            folder.open(asdict(plan.settings), keep_chunks=True)
            chunks.open(settings)
            started = time.perf_counter()
            done = jobs.compute(plan, chunks, progress, attempts)
            result = _write(plan, folder, settings, progress, started, done)
            if not done.chunks["failed"]:
                chunks.remove()
    return _with_failures(result, done)


def _with_failures(result: Result, done: Computed) -> Result:
    if not done.chunks["failed"]:
        return result
    first, *others = done.chunks["failed"]
    more = f" and {len(others)} more" if others else ""
    return replace(result, incomplete=f"failed, null in the results: {first['chunk']} ({first['reason']}){more}")


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
    plan: SweepPlan, folder: RunFolder, settings: dict[str, Any], progress: Progress, started: float, done: Computed
) -> Result:
    """Write the run folder, the manifest last. started: by `time.perf_counter`."""
    with progress.stage("examples"):
        results, large = dataset(plan, done), streams(plan, done.sampled)
    result = result_of(plan, done, results)
    summary = result.to_dict()
    resolved = asdict(plan.settings) | {"sweep": summary["axes"]}
    folder.write_config(resolved)
    with progress.stage("writing"):
        folder.write_results(results, large)
        if plan.settings.pictures:
            folder.write_files({f"{figure.name}.png": figure.png() for figure in result.figures})
        folder.write_summary(summary)
    wall, compiling = time.perf_counter() - started, done.throughput["compile_seconds"]
    seconds = {"wall": wall, "compile": compiling, "run": wall - compiling}
    more = {"chunks": done.chunks, "settings_hash": hash_of(settings)}
    folder.finish("sweep", resolved, seconds, progress.seconds, _block_width(), **more)
    return result
