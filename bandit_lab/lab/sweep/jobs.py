"""The rows of a sweep by the theory, and what is left to be measured, cut into jobs: thresholds of some rows, or
sampled runs of some cells over a range of seeds.

A job's size is chosen so that it takes seconds; results do not depend on it, because rows and cells are independent
of their neighbours and seeds are pooled in units (`simulation.moments`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import measure
from bandit_lab._types import Outcome
from bandit_lab.app.result import plain
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.linear import LinearTheory, RateThreshold
from bandit_lab.lab.sweep.plan import CHUNK_RUNS, SweepPlan
from bandit_lab.loop import Loop, Reason, response_of
from bandit_lab.measure import FixedPoint, StiffnessReport, displaced
from bandit_lab.measure.growth import PERIODS, time_scale
from bandit_lab.simulation import UNIT, Summary, fast, run
from bandit_lab.simulation.engine import WIDTH, Route, route
from bandit_lab.simulation.fast import DEFAULT_GENERATOR

if TYPE_CHECKING:
    from bandit_lab.lab.sweep.sampled import SampledResult

SAME = 1e-3  # an onset this close above the threshold is the threshold itself, crossed with a negative multiplier
NO_RINGING = "stability is lost before any oscillation"
_NO_MEASURE = "the optimiser {} has no noise-free fixed point to displace a run from"
BOUNDARY, ONSET, SAMPLED = "boundary", "onset of oscillation", "sampled runs"
_SEED_STEPS = {"fast": 2**28, "reference": 2**24}  # of a job of sampled runs: some seconds
_ROW_CELLS = 2**14  # rows x learning rates of a job of thresholds: about ten seconds with compilation
_LEARNER = (
    *("bandit", "advantage", "estimator", "staleness", "optimizer"),
    *("group_size", "prompts", "kl_estimator", "sampler", "correction", "entropy_weight", "batch_reuse", "plugins"),
)
Judge = Callable[[Summary, np.ndarray], np.ndarray]
"""(Summary of arrays [c, s], places of the cells [c]) -> outcome codes [c, s]."""
FIELDS = tuple(name for name in Summary._fields if name != "finite")
MEAN = "mean_of_"


@dataclass(frozen=True)
class Equilibrium:
    """One drift at one KL weight: its fixed point and stiffness, measured, and the theory's view of the same."""

    dynamics: str
    kl_weight: float
    point: FixedPoint
    stiffness: StiffnessReport | None
    linear: LinearTheory

    def unmeasured(self, learner: Learner) -> str | None:
        """Why its rows have no measured thresholds, or None."""
        if not self.point.exists:
            return self.point.reason
        if learner.staleness.drawn:
            return Reason.DRAWN
        has_response = response_of(learner.optimizer, 0.5) is not None
        return None if has_response else _NO_MEASURE.format(learner.optimizer.convention)


@dataclass(frozen=True)
class Predicted:
    """Closed-form values, one list entry per row."""

    law: list[RateThreshold]
    exact: list[RateThreshold]
    onset: list[RateThreshold]
    oscillator_onset: list[RateThreshold]
    undelayed: list[RateThreshold]


@dataclass(frozen=True)
class Drift:
    """Rows of one drift, before anything is measured: every combination of momentum, KL weight and refresh interval, in
    that order. cells: Hyper of arrays [R] (learning rate unused)."""

    dynamics: str
    name: str
    equilibria: tuple[Equilibrium, ...]
    cells: Hyper
    predicted: Predicted

    def equilibrium(self, kl_weight: float) -> Equilibrium:
        """The fixed point at a KL weight of the grid."""
        return next(g for g in self.equilibria if g.kl_weight == kl_weight)


@dataclass(frozen=True)
class DriftResult(Drift):
    """The same rows measured.

    boundary, onset: [R]; NaN where `reasons` says why. On the learning rates of the grid, [R, L] each: growth per step,
    rings > 0 where the stiffest mode's dominant pole is not real and positive, outcome codes. stable_again: [R] windows
    as `stable_again` finds them. no_onset: why no onset of oscillation can be measured, or None.
    """

    boundary: np.ndarray
    onset: np.ndarray
    growth: np.ndarray
    rings: np.ndarray
    outcome: np.ndarray
    reasons: list[str | None]
    stable_again: list[list[list[float]]]
    no_onset: str | None = None


@dataclass
class Computed:
    """Learning rates of the grid, one result per drift, the sampled runs; and what this process did of it.

    stored, computed: jobs that were done before, and that were computed here, in `job_seconds`. failed: place of every
    failed job -> reason. started: by `time.perf_counter`. seconds: of all of it, `compile_seconds` of these in
    compiling; `sampling_compile_seconds` for the sampled runs.
    """

    rates: np.ndarray
    started: float
    drifts: list[DriftResult] = field(default_factory=list)
    sampled: "SampledResult | None" = None
    stored: int = 0
    computed: int = 0
    job_seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    seed_steps_here: float = 0.0
    sampling_compile_seconds: float = 0.0
    seconds: float = 0.0
    compile_seconds: float = 0.0

    def counts(self) -> dict[str, Any]:
        """For `manifest.json` and `summary.json`."""
        return {
            "total": self.stored + self.computed + len(self.failed),
            "found": self.stored,
            "computed_here": self.computed,
            "failed": [{"chunk": place, "reason": reason} for place, reason in self.failed.items()],
            "seconds": round(self.job_seconds, 3),
        }


def rows(momenta: np.ndarray, weights: np.ndarray, intervals: np.ndarray) -> Hyper:
    """Every combination, refresh interval fastest; the learning rate is left at 1."""
    mesh = np.meshgrid(momenta, weights, intervals, indexing="ij")
    momentum, weight, interval = (m.ravel() for m in mesh)
    return Hyper(np.ones(len(momentum)), momentum, interval, weight)


def predict_rows(
    equilibria: tuple[Equilibrium, ...],
    cells: Hyper,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Predicted:
    """Law, exact threshold and onset of every row."""
    by_weight = {g.kl_weight: g.linear for g in equilibria}
    result = Predicted([], [], [], [], [])
    total = len(cells.momentum)
    for i, (momentum, weight, interval) in enumerate(
        zip(cells.momentum, cells.kl_weight, cells.refresh_interval, strict=True)
    ):
        linear, setting = by_weight[float(weight)], (interval.item(), float(momentum))
        result.law.append(linear.law(*setting))
        exact, onset = linear.threshold(*setting), linear.onset(*setting)
        late = exact.value is not None and onset.value is not None and onset.value > exact.value * (1 + SAME)
        result.exact.append(exact)
        result.onset.append(RateThreshold.absent(NO_RINGING) if late else onset)
        result.oscillator_onset.append(linear.oscillator_onset(*setting))
        result.undelayed.append(linear.undelayed(float(momentum)))
        progress(i + 1, total)
    return result


def stable_again(loop: Loop, threshold: float, rates: np.ndarray) -> list[list[float]]:
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


def values(column: list[RateThreshold]) -> np.ndarray:
    """Values [R], NaN where there are none."""
    return np.array([np.nan if v.value is None else v.value for v in column])


def _learner_identity(plan: SweepPlan) -> dict[str, Any]:
    """The settings that make the learner."""
    settings = {name: plain(getattr(plan.settings, name)) for name in _LEARNER}
    return settings | {"horizon": int(plan.learner.horizon)}


def _columns(cells: Hyper) -> dict[str, list[float]]:
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
            "learner": _learner_identity(self.plan),
            "dynamics": self.equilibrium.dynamics,
            "cells": _columns(self.cells),
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

    def cut(self, length: int) -> list["RowsWork"]:
        """The same work in jobs of at most `length` rows."""
        parts = [slice(i, i + length) for i in range(0, len(self.rows), length)]
        return [replace(self, rows=self.rows[some], cells=take(self.cells, some)) for some in parts]


def rows_work(plan: SweepPlan, drift: Drift, rates: np.ndarray) -> dict[str, list[RowsWork]]:
    """kind -> chunks of every row that can be measured: boundaries first, onsets second."""
    length = plan.settings.chunk.rows or max(1, _ROW_CELLS // len(rates))
    result: dict[str, list[RowsWork]] = {f"{detector}, {drift.name}": [] for detector in (BOUNDARY, ONSET)}
    for equilibrium in drift.equilibria:
        if equilibrium.unmeasured(plan.learner):
            continue
        mine = np.flatnonzero(drift.cells.kl_weight == equilibrium.kl_weight)
        for detector, chunks in zip((BOUNDARY, ONSET), result.values(), strict=True):
            if detector == ONSET and measure.unsampled_reason(plan.learner, drift.cells.refresh_interval):
                continue
            some = take(drift.cells, mine)
            chunks += RowsWork(plan, detector, drift.name, equilibrium, mine, some, rates).cut(length)
    return result


@dataclass(frozen=True)
class RunsWork:
    """Sampled runs of cells [C] of one length, seeds `first` to `first + seeds`.

    index: [C] places of the cells in the sampled grid. starts: [C, D]. reference: [C] expected reward of the fixed
    point. judge: outcome codes of runs; used here only where single runs are not kept.

    Arrays (c cells, s seeds, u units of seeds): unit_seeds [u], unit_mean and unit_square [c, u, T + 1]; where single
    runs are kept, every field of `Summary` [c, s] in the precision of the runs; else outcome_count [c, u, outcomes],
    and of every field the mean over the finite runs of a unit [c, u] beside their number.
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
        curves = {name: values.tolist() for name, values in self.plan.curves.items()}
        schedule = {"schedule": curves} if curves else {}
        return schedule | {
            "learner": _learner_identity(self.plan),
            "cells": _columns(self.cells),
            "steps": self.steps,
            "first_seed": self.first,
            "seeds": self.seeds,
            "seed": settings.seed,
            "rng": self.plan.settings.rng or DEFAULT_GENERATOR,
            "path": self.path.name,
            "precision": self.dtype.name,
            "start": settings.sampled.start,
            "keep_runs": self.keep,
            "width": [width.cells, width.seeds, UNIT, *fast.WIDTH.values()],
        }

    @property
    def path(self) -> Route:
        return route(self.plan.trained, "sampled", self.plan.settings.path)

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
            rng=self.plan.settings.rng or DEFAULT_GENERATOR,
            threads=self.threads,
        )
        whole = runs.summary.finite.all(axis=1)
        if not np.all(np.isfinite(runs.moments.mean[whole])):
            raise FloatingPointError("a mean over runs that all stayed finite is not finite")
        arrays = {f"unit_{name}": column for name, column in runs.moments._asdict().items()}
        if self.keep:
            summary = runs.summary._asdict().items()
            return arrays | {name: x if name == "finite" else x.astype(self.dtype) for name, x in summary}
        return arrays | _outcome_arrays(runs.summary, self.judge(runs.summary, self.index))

    def cut(self) -> list["RunsWork"]:
        """The same work in chunks, all seeds of some cells before the next cells."""
        cells, seeds = _chunk_shape(self.plan, self.steps, len(self.index), self.seeds)
        chunks = []
        for some in (slice(i, i + cells) for i in range(0, len(self.index), cells)):
            part = {name: getattr(self, name)[some] for name in ("index", "starts", "reference")}
            for first in range(0, self.seeds, seeds):
                size = min(seeds, self.seeds - first)
                chunks.append(replace(self, **part, cells=take(self.cells, some), first=first, seeds=size))
        return chunks


def _chunk_shape(plan: SweepPlan, steps: int, cells: int, seeds: int) -> tuple[int, int]:
    """(cells, seeds) of a chunk of `cells` x `seeds` sampled runs: whole blocks of cells, whole units of seeds."""
    chosen, width = plan.settings.chunk, WIDTH["sampled"].cells
    room = max(1, min(_SEED_STEPS[route(plan.trained, "sampled", plan.settings.path).name] // steps, CHUNK_RUNS))
    part = min(chosen.seeds or UNIT * max(1, room // (UNIT * min(width, cells))), seeds)
    return chosen.cells or width * max(1, room // (part * width)), part


def _range(name: str, values: np.ndarray) -> str:
    low, high = np.min(values), np.max(values)
    return f"{name} {low:.4g}" if low == high else f"{name} {low:.4g}..{high:.4g}"


def _outcome_arrays(summary: Summary, codes: np.ndarray) -> dict[str, np.ndarray]:
    """Without single runs: counts of outcomes, and means over finite runs, for every unit of seeds."""
    parts = [slice(start, start + UNIT) for start in range(0, codes.shape[1], UNIT)]
    arrays = {"outcome_count": np.stack([count_codes(codes[:, part]) for part in parts], axis=1)}
    finite = np.asarray(summary.finite)
    arrays["finite_runs"] = np.stack([finite[:, part].sum(axis=1) for part in parts], axis=1)
    for name in FIELDS:
        values = np.asarray(getattr(summary, name), float)
        some = [[row[part][good[part]] for part in parts] for row, good in zip(values, finite, strict=True)]
        arrays[MEAN + name] = np.array([[np.mean(x) if x.size else np.nan for x in row] for row in some])
    return arrays


def count_codes(codes: np.ndarray) -> np.ndarray:
    """How many runs [c, outcomes] ended in each outcome. codes: [c, s]."""
    return np.stack([np.sum(codes == outcome, axis=1) for outcome in Outcome], axis=1)
