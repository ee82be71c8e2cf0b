"""What the chunks of a sweep compute: thresholds of some rows, or sampled runs of some cells over a range of seeds.

A chunk's size is chosen so that it takes seconds; results do not depend on it, because rows and cells are independent
of their neighbours and seeds are pooled in units (`simulation.moments`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandit_lab.app.result import plain
from bandit_lab.grpo import Hyper
from bandit_lab.lab.predict import build
from bandit_lab.lab.sweep import exact
from bandit_lab.lab.sweep.exact import Drift, Equilibrium
from bandit_lab.lab.sweep.plan import CHUNK_RUNS, SweepPlan
from bandit_lab.lab.sweep.runs import Judge, outcome_arrays, run_arrays
from bandit_lab.measure import displaced
from bandit_lab.measure.growth import PERIODS, time_scale
from bandit_lab.simulation import UNIT, fast, run
from bandit_lab.simulation.engine import WIDTH, Route, route
from bandit_lab.simulation.fast import DEFAULT_GENERATOR

_LEARNER = (
    *("bandit", "advantage", "estimator", "staleness", "optimizer"),
    *("group_size", "prompts", "kl_estimator", "sampler", "correction", "entropy_weight", "batch_reuse", "plugins"),
)
BOUNDARY, ONSET, SAMPLED = "boundary", "onset of oscillation", "sampled runs"
SEED_STEPS = {"fast": 2**28, "reference": 2**24}  # of a chunk of sampled runs: some seconds
ROW_CELLS = 2**14  # rows x learning rates of a chunk of thresholds: about ten seconds with compilation


def learner_identity(plan: SweepPlan) -> dict[str, Any]:
    """The settings that make the learner."""
    settings = {name: plain(getattr(plan.settings, name)) for name in _LEARNER}
    return settings | {"horizon": int(plan.learner.horizon)}


def columns(cells: Hyper) -> dict[str, list[float]]:
    """The cells' settings as plain numbers."""
    return {name: np.asarray(column).tolist() for name, column in cells._asdict().items()}


def take(cells: Hyper, index: Any) -> Hyper:
    """Some of the cells."""
    return Hyper(*(np.asarray(column)[index] for column in cells))


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
        return f"{_range('mu', self.cells.momentum)}, {_range('N', self.cells.refresh_interval)}, beta {self.weight:g}"

    @property
    def weight(self) -> float:
        return self.equilibrium.kl_weight

    @property
    def size(self) -> float:
        return float(len(self.rates) * np.sum(time_scale(self.cells)))

    def identity(self) -> dict[str, Any]:
        return {
            "learner": learner_identity(self.plan),
            "dynamics": self.equilibrium.dynamics,
            "cells": columns(self.cells),
            "learning_rates": self.rates.tolist(),
            "width": displaced.width_of(self.plan.learner, self.equilibrium.dynamics),
            "runs": [displaced.STEPS, PERIODS],
        }

    def compute(self) -> Mapping[str, np.ndarray]:
        measure = exact.measure_boundary if self.detector == BOUNDARY else exact.measure_onset
        found = measure(self.plan, self.equilibrium, self.cells, self.rates)
        return {"value": found.value, "on_grid": found.on_grid}

    def _part(self, some: slice) -> "RowsWork":
        return replace(self, rows=self.rows[some], cells=take(self.cells, some))

    def cut(self, length: int) -> list["RowsWork"]:
        """The same work in chunks of at most `length` rows."""
        return [self._part(slice(i, i + length)) for i in range(0, len(self.rows), length)]


def rows_work(plan: SweepPlan, drift: Drift, rates: np.ndarray) -> dict[str, list[RowsWork]]:
    """kind -> chunks of every row that can be measured: boundaries first, onsets second."""
    length = plan.settings.chunk.rows or max(1, ROW_CELLS // len(rates))
    result: dict[str, list[RowsWork]] = {f"{detector}, {drift.name}": [] for detector in (BOUNDARY, ONSET)}
    for equilibrium in drift.equilibria:
        if exact.unmeasured_reason(plan, equilibrium):
            continue
        mine = np.flatnonzero(drift.cells.kl_weight == equilibrium.kl_weight)
        for detector, chunks in zip((BOUNDARY, ONSET), result.values(), strict=True):
            if detector == ONSET and exact.no_onset(plan, drift.cells):
                continue
            some = take(drift.cells, mine)
            chunks += RowsWork(plan, detector, drift.name, equilibrium, mine, some, rates).cut(length)
    return result


@dataclass(frozen=True)
class RunsWork:
    """Sampled runs of cells [C] of one length, seeds `first` to `first + seeds`.

    index: [C] places of the cells in the sampled grid. starts: [C, D]. reference: [C] expected reward of the fixed
    point. judge: outcome codes of runs; used here only where single runs are not kept. Arrays: see `sweep_runs`.
    """

    plan: SweepPlan
    steps: int
    index: np.ndarray
    cells: Hyper
    starts: np.ndarray
    reference: np.ndarray
    first: int
    seeds: int
    keep: bool
    judge: Judge
    threads: int = 2

    kind = SAMPLED

    @property
    def what(self) -> str:
        cells = self.cells
        axes = (("mu", cells.momentum), ("N", cells.refresh_interval), ("eta", cells.learning_rate))
        place = ", ".join(_range(name, column) for name, column in axes)
        return f"{place}, seeds {self.first}..{self.first + self.seeds - 1}"

    @property
    def size(self) -> float:
        return float(len(self.index) * self.seeds * self.steps)

    def identity(self) -> dict[str, Any]:
        settings, width = self.plan.settings, WIDTH["sampled"]
        return {
            "learner": learner_identity(self.plan),
            "cells": columns(self.cells),
            "steps": self.steps,
            "first_seed": self.first,
            "seeds": self.seeds,
            "seed": settings.seed,
            "rng": self.rng,
            "path": self.path.name,
            "precision": self.dtype.name,
            "start": settings.sampled.start,
            "keep_runs": self.keep,
            "width": [width.cells, width.seeds, UNIT, *fast.WIDTH.values()],
        } | self._schedule()

    def _schedule(self) -> dict[str, Any]:
        curves = {name: values.tolist() for name, values in self.plan.curves.items()}
        return {"schedule": curves} if curves else {}

    @property
    def path(self) -> Route:
        return route(self.plan.trained, "sampled", self.plan.settings.path)

    @property
    def rng(self) -> str:
        return self.plan.settings.rng or DEFAULT_GENERATOR

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(build.precision_of(self.plan.settings, self.plan.learner))

    def compute(self) -> Mapping[str, np.ndarray]:
        runs = run(
            self.plan.trained,
            "sampled",
            self.cells,
            steps=self.steps,
            seeds=self.seeds,
            seed=self.plan.settings.seed,
            first_seed=self.first,
            dtype=self.dtype,
            initial=self.starts,
            reference=self.reference,
            path=self.path.name,
            rng=self.rng,
            threads=self.threads,
        )
        whole = runs.summary.finite.all(axis=1)
        if not np.all(np.isfinite(runs.moments.mean[whole])):
            raise FloatingPointError("a mean over runs that all stayed finite is not finite")
        arrays = {f"unit_{name}": column for name, column in runs.moments._asdict().items()}
        if self.keep:
            return arrays | run_arrays(runs.summary, self.dtype)
        return arrays | outcome_arrays(runs.summary, self.judge(runs.summary, self.index))

    def _part(self, some: slice) -> "RunsWork":
        return replace(
            self,
            index=self.index[some],
            cells=take(self.cells, some),
            starts=self.starts[some],
            reference=self.reference[some],
        )

    def cut(self) -> list["RunsWork"]:
        """The same work in chunks, all seeds of some cells before the next cells."""
        cells, seeds = chunk_shape(self.plan, self.steps, len(self.index), self.seeds)
        return [
            replace(part, first=first, seeds=min(seeds, self.seeds - first))
            for i in range(0, len(self.index), cells)
            for part in [self._part(slice(i, i + cells))]
            for first in range(0, self.seeds, seeds)
        ]


def chunk_shape(plan: SweepPlan, steps: int, cells: int, seeds: int) -> tuple[int, int]:
    """(cells, seeds) of a chunk of `cells` x `seeds` sampled runs: whole blocks of cells, whole units of seeds."""
    chosen, width = plan.settings.chunk, WIDTH["sampled"].cells
    room = max(1, min(SEED_STEPS[route(plan.trained, "sampled", plan.settings.path).name] // steps, CHUNK_RUNS))
    part = min(chosen.seeds or UNIT * max(1, room // (UNIT * min(width, cells))), seeds)
    return chosen.cells or width * max(1, room // (part * width)), part


def _range(name: str, values: np.ndarray) -> str:
    low, high = np.min(values), np.max(values)
    return f"{name} {low:.4g}" if low == high else f"{name} {low:.4g}..{high:.4g}"
