"""The sampled half of a sweep: a coarse grid of noisy runs, what became of each, and the boundary that they show.

Runs begin at the fixed point (a hair's breadth towards the initial policy). So the noise and the loss of stability
carry them off, not a first block that overshoots from far away. `sampled.start=initial` begins where training does. A
run counts as lost by `measure.classify_runs`. The noise scale there is the stationary std of small steps (temperature
alone): the full linear prediction diverges at the threshold and would excuse every cycle near it. A run that sits near
the best arm's vertex is lost however large that scale is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab import measure
from bandit_lab.app.chunks import ChunkStore, Report
from bandit_lab.app.result import Value, plain
from bandit_lab.app.settings.config import Settings
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.fixed_point import LinearTheory, noise_covariance, stationary_stds
from bandit_lab.lab.sweep.plan import CHUNK_RUNS, SweepPlan
from bandit_lab.measure.outcome import Outcome
from bandit_lab.simulation import UNIT, Moments, Summary, fast, pool, run
from bandit_lab.simulation.engine import WIDTH, Route, route
from bandit_lab.simulation.fast import DEFAULT_GENERATOR

if TYPE_CHECKING:
    from bandit_lab.lab.sweep.jobs import Equilibrium

SAMPLED = "sampled runs"
_SEED_STEPS = {"fast": 2**28, "reference": 2**24}  # of a job of sampled runs: some seconds
_LEARNER = (
    *("bandit", "advantage", "estimator", "staleness", "optimizer"),
    *("group_size", "prompts", "kl_estimator", "sampler", "correction", "entropy_weight", "batch_reuse", "plugins"),
)
NUDGE = 1e-3  # of the way from the fixed point to the initial policy
CEILING_SHARE = 0.75  # of the way from the fixed point to the best arm's reward: the largest departure that is noise
CYCLE_MULTIPLE = 2.0  # a tail that fluctuates more than this many noise scales is a sustained cycle
SMALL = 0.02  # of the threshold: there the stationary variance is proportional to the learning rate
MORE = "half of the runs are lost already at the smallest learning rate of the row"
FEWER = "fewer than half of the runs are lost up to the largest learning rate of the row"
NOT_RUN = -1  # in place of an outcome code, where a chunk failed
Judge = Callable[[Summary, np.ndarray], np.ndarray]
"""(Summary of arrays [c, s], places of the cells [c]) -> outcome codes [c, s]."""
FIELDS = tuple(name for name in Summary._fields if name != "finite")
MEAN = "mean_of_"
UNITS = dict.fromkeys(("tail_mean", "tail_std", "overshoot"), "reward")
UNITS |= {"final_max_probability": "1", "tail_silent": "1"}
OUTCOME: dict[str, Any] = {
    "flag_values": [int(o) for o in Outcome],
    "flag_meanings": " ".join(o.label for o in Outcome),
    "units": "1",
}


def _take(cells: Hyper, index: Any) -> Hyper:
    """Some of the cells."""
    return Hyper(*(np.asarray(column)[index] for column in cells))


def identity_of(plan: SweepPlan, cells: Hyper) -> dict[str, Any]:
    """What decides the numbers of every job: the settings that make the learner, and the cells'."""
    learner = {name: plain(getattr(plan.settings, name)) for name in _LEARNER} | {"horizon": int(plan.learner.horizon)}
    return {
        "learner": learner,
        "cells": {name: np.asarray(column).tolist() for name, column in cells._asdict().items()},
    }


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

    kind = SAMPLED

    @property
    def what(self) -> str:
        cells = self.cells
        axes = (("mu", cells.momentum), ("N", cells.refresh_interval), ("eta", cells.learning_rate))
        place = ", ".join(span(name, column) for name, column in axes)
        return f"{place}, seeds {self.first}..{self.first + self.seeds - 1}"

    @property
    def size(self) -> float:
        return float(len(self.index) * self.seeds * self.steps)

    def identity(self) -> dict[str, Any]:
        settings, width = self.plan.settings, WIDTH["sampled"]
        curves = {name: values.tolist() for name, values in self.plan.curves.items()}
        schedule = {"schedule": curves} if curves else {}
        return (
            identity_of(self.plan, self.cells)
            | schedule
            | {
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
        )

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
                chunks.append(replace(self, **part, cells=_take(self.cells, some), first=first, seeds=size))
        return chunks


def _chunk_shape(plan: SweepPlan, steps: int, cells: int, seeds: int) -> tuple[int, int]:
    """(cells, seeds) of a chunk of `cells` x `seeds` sampled runs: whole blocks of cells, whole units of seeds."""
    chosen, width = plan.settings.chunk, WIDTH["sampled"].cells
    room = max(1, min(_SEED_STEPS[route(plan.trained, "sampled", plan.settings.path).name] // steps, CHUNK_RUNS))
    part = min(chosen.seeds or UNIT * max(1, room // (UNIT * min(width, cells))), seeds)
    return chosen.cells or width * max(1, room // (part * width)), part


def span(name: str, values: np.ndarray) -> str:
    """`name value`, or `name lowest..highest` where values [n] differ."""
    low, high = np.min(values), np.max(values)
    return f"{name} {low:.4g}" if low == high else f"{name} {low:.4g}..{high:.4g}"


def _outcome_arrays(summary: Summary, codes: np.ndarray) -> dict[str, np.ndarray]:
    """Without single runs: counts of outcomes, and means over finite runs, for every unit of seeds."""
    parts = [slice(start, start + UNIT) for start in range(0, codes.shape[1], UNIT)]
    arrays = {"outcome_count": np.stack([_count_codes(codes[:, part]) for part in parts], axis=1)}
    finite = np.asarray(summary.finite)
    arrays["finite_runs"] = np.stack([finite[:, part].sum(axis=1) for part in parts], axis=1)
    for name in FIELDS:
        values = np.asarray(getattr(summary, name), float)
        some = [[row[part][good[part]] for part in parts] for row, good in zip(values, finite, strict=True)]
        arrays[MEAN + name] = np.array([[np.mean(x) if x.size else np.nan for x in row] for row in some])
    return arrays


def _count_codes(codes: np.ndarray) -> np.ndarray:
    """How many runs [c, outcomes] ended in each outcome. codes: [c, s]."""
    return np.stack([np.sum(codes == outcome, axis=1) for outcome in Outcome], axis=1)


@dataclass(frozen=True)
class _SampledPlan:
    """Sampled runs to be made. Q rows (momentum, KL weight, refresh interval), P learning rates each, S seeds.

    learning_rate, noise_scale: [Q, P]. reasons: [Q] why a row's runs cannot be judged. chunks: the work, on cells
    numbered row by row.
    """

    learning_rate: np.ndarray
    noise_scale: np.ndarray
    reasons: list[str | None]
    chunks: list[RunsWork]
    judge: Judge


class _StoredRuns:
    """All sampled runs of a sweep, read from their jobs. Cells are numbered 0..C-1 in the order of the grid.

    times: T + 1 of the longest.
    """

    def __init__(self, plan: SweepPlan, planned: _SampledPlan, store: ChunkStore, report: Report) -> None:
        self.cells, self.seeds, self.times = planned.learning_rate.size, plan.settings.seeds, plan.longest + 1
        self.keep, self._failed = plan.keeps_runs, report.failed
        self._chunks, self._judge = planned.chunks, planned.judge
        self._of_cell: list[list[int]] = [[] for _ in range(self.cells)]
        for number, chunk in enumerate(self._chunks):
            for cell in chunk.index:
                self._of_cell[cell].append(number)
        self._load = lru_cache(maxsize=2)(lambda number: store.load(report.keys[number]))
        self._pooled = lru_cache(maxsize=64)(self._pool)

    def reasons(self) -> list[str | None]:
        """Why a cell's statistics are missing [C], None where they are not."""
        result: list[str | None] = [None] * self.cells
        for number, reason in sorted(self._failed.items()):
            for cell in self._chunks[number].index:
                result[cell] = result[cell] or reason
        return result

    def outcome_counts(self) -> np.ndarray:
        """Runs per outcome [C, outcomes], of those that were run."""
        counts = np.zeros((self.cells, len(Outcome)), int)
        for number, chunk in enumerate(self._chunks):
            if number not in self._failed:
                arrays = self._load(number)
                more = _count_codes(self._codes(number)) if self.keep else arrays["outcome_count"].sum(axis=1)
                counts[chunk.index] += more
        return counts

    def means(self) -> dict[str, np.ndarray]:
        """Mean of every field over finite runs [C], where single runs are not kept. NaN where none is finite."""
        total = {name: np.zeros(self.cells) for name in FIELDS}
        weight = np.zeros(self.cells)
        for number, chunk in enumerate(self._chunks):
            arrays = {} if number in self._failed else self._load(number)
            for unit, runs in enumerate(arrays["finite_runs"].T if arrays else ()):  # in the order of the seeds
                weight[chunk.index] += runs
                for name in FIELDS:
                    total[name][chunk.index] += np.where(runs > 0, arrays[MEAN + name][:, unit] * runs, 0)
        with np.errstate(invalid="ignore"):
            return {name: column / weight for name, column in total.items()}

    def curves(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """(mean, variance) [cells, T + 1] of the expected reward over seeds; NaN beyond a run's own length."""
        result = np.full((2, stop - start, self.times), np.nan)
        for cell in range(start, stop):
            numbers = tuple(self._of_cell[cell])
            if self._failed.keys().isdisjoint(numbers):
                place = int(np.flatnonzero(self._chunks[numbers[0]].index == cell)[0])
                mean, variance = self._pooled(numbers)
                result[0, cell - start, : mean.shape[1]] = mean[place]
                result[1, cell - start, : mean.shape[1]] = variance[place]
        return result[0], result[1]

    def runs(self, start: int, stop: int, first: int, last: int) -> dict[str, np.ndarray]:
        """`outcome` and every field of single runs [cells, seeds first..last]; what was not run is NOT_RUN or NaN."""
        shape = (stop - start, last - first)
        result = {name: np.full(shape, np.nan, np.float32) for name in FIELDS}
        result["outcome"] = np.full(shape, NOT_RUN, np.int8)
        for number in sorted({n for cell in range(start, stop) for n in self._of_cell[cell]}):
            chunk = self._chunks[number]
            low, high = max(first, chunk.first), min(last, chunk.first + chunk.seeds)
            if number in self._failed or low >= high:
                continue
            inside = (chunk.index >= start) & (chunk.index < stop)
            rows, of_chunk = chunk.index[inside] - start, slice(low - chunk.first, high - chunk.first)
            values = {**self._load(number), "outcome": self._codes(number)}
            for name, column in result.items():
                column[rows, low - first : high - first] = values[name][inside][:, of_chunk]
        return result

    def _codes(self, number: int) -> np.ndarray:
        arrays = self._load(number)
        fields = (arrays[name] if name == "finite" else arrays[name].astype(float) for name in Summary._fields)
        return self._judge(Summary(*fields), self._chunks[number].index)

    def _pool(self, numbers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        def parts() -> Iterator[Moments]:
            for number in numbers:
                arrays = self._load(number)
                yield Moments(arrays["unit_seeds"], arrays["unit_mean"], arrays["unit_square"])

        return pool(parts())


@dataclass(frozen=True)
class SampledResult:
    """Sampled runs made. counts: [Q, P, outcomes] runs per outcome. lost: [Q, P] share that left the fixed point.

    boundary: [Q] learning rate at which half of them do, NaN where the grid does not bracket it. reasons: [Q] why.
    runs: the rest, read when it is written.
    """

    planned: _SampledPlan
    counts: np.ndarray
    lost: np.ndarray
    boundary: np.ndarray
    reasons: list[str | None]
    runs: _StoredRuns

    def boundary_at(self, row: int) -> Value:
        """The boundary of one row, or why there is none."""
        return Value.of(self.boundary[row], self.reasons[row] or "not bracketed by the runs' learning rates")


def learning_rates(plan: SweepPlan, threshold: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Learning rates [Q, P]: a schedule's, else multiples of each row's threshold [Q], or the grid's without one."""
    if plan.peaks is not None:
        return np.tile(plan.peaks, (len(threshold), 1))
    spare = np.geomspace(fine[0], fine[-1], len(plan.multiples))
    return np.array([t * plan.multiples if np.isfinite(t) and t > 0 else spare for t in threshold])


def plan_sampled(plan: SweepPlan, equilibria: "Mapping[float, Equilibrium]", rates: np.ndarray) -> _SampledPlan:
    """The runs of the coarse grid, cut into chunks. equilibria: of the finite-group drift, if it is known."""
    rows, steps = plan.sampled_rows, plan.sampled_steps
    reward, largest, std, reasons = _expectations(plan, equilibria, rows, rates)
    starts, per_row, settings = _starts(plan, equilibria, rows), rates.shape[1], plan.settings
    best = float(np.max(plan.learner.bandit.true_means))

    def judge(summary: Summary, index: np.ndarray) -> np.ndarray:
        at = [column.ravel()[index] for column in (reward, largest, std)]
        return classify(summary, at[0], at[1], at[2], best)

    cells = Hyper(rates.ravel(), *(np.repeat(column, per_row) for column in rows[1:]))
    chunks: list[RunsWork] = []
    for length in np.unique(steps):
        index = np.flatnonzero(np.repeat(steps == length, per_row))
        some, start = _take(cells, index), starts[index // per_row]
        whole = RunsWork(
            plan, int(length), index, some, start, reward.ravel()[index], 0, settings.seeds, plan.keeps_runs, judge
        )
        chunks += whole.cut()
    return _SampledPlan(rates, std, reasons, chunks, judge)


def collect_sampled(plan: SweepPlan, planned: _SampledPlan, store: ChunkStore, report: Report) -> SampledResult:
    """Outcomes of the runs, from their chunks."""
    shape, runs = planned.learning_rate.shape, _StoredRuns(plan, planned, store, report)
    missing = np.array(runs.reasons(), object).reshape(shape)
    counts = runs.outcome_counts().reshape(*shape, -1)
    complete = np.array([reason is None for reason in missing.flat]).reshape(shape)
    lost = np.where(complete, measure.share_of_lost(counts), np.nan)
    pairs = zip(planned.learning_rate, lost, strict=True)
    boundary = np.array([np.nan if np.isnan(s).any() else measure.sampled_boundary(r, s[None])[0] for r, s in pairs])
    reasons: list[str | None] = []
    for failed, reason, share in zip(missing, planned.reasons, lost, strict=True):
        outside = FEWER if np.all(share < 0.5) else None
        reasons.append(next(filter(None, failed), None) or reason or (MORE if share[0] >= 0.5 else outside))
    return SampledResult(planned, counts, lost, boundary, reasons, runs)


def classify(summary: Summary, reward: np.ndarray, largest: np.ndarray, std: np.ndarray, best: float) -> np.ndarray:
    """Outcome codes [c, s]: mean within 4 noise scales, fluctuation within CYCLE_MULTIPLE, both short of the vertex.

    best: mean reward of the best arm. `measure.classify_runs` knows one scale only; the fluctuation is rescaled to it.
    """
    vertex = CEILING_SHARE * (best - reward)
    around = np.minimum(measure.outcome.NOISE_MULTIPLE * std, vertex)
    cycle = np.minimum(CYCLE_MULTIPLE * std, vertex)
    rescaled = summary._replace(tail_std=summary.tail_std * (around / cycle)[:, None])
    return measure.classify_runs(rescaled, reward, largest, around / measure.outcome.NOISE_MULTIPLE)


def _expectations(
    plan: SweepPlan, equilibria: "Mapping[float, Equilibrium]", rows: Hyper, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str | None]]:
    """(expected reward, largest probability, stationary std [Q, P] each, reason [Q]) at each row's fixed point.

    Without a fixed point the reward is NaN: such runs are collapsed or undecided, nothing else can be said of them.
    """
    shape = rates.shape
    reward, largest, std = np.full(shape, np.nan), np.zeros(shape), np.full(shape, np.nan)
    reasons: list[str | None] = [plan.unjudged] * shape[0]
    for q in () if plan.unjudged else range(shape[0]):
        equilibrium = equilibria.get(float(rows.kl_weight[q]))
        if equilibrium is None or not equilibrium.point.exists:
            reasons[q] = equilibrium.point.reason if equilibrium else plan.no_finite_group
            continue
        reward[q], largest[q] = equilibrium.point.expected_reward, float(np.max(equilibrium.point.policy))
        setting = (float(rows.momentum[q]), rows.refresh_interval[q].item())
        std[q], reasons[q] = noise_scale(plan.learner, plan.settings, equilibrium.linear, setting, rates[q])
    return reward, largest, std, reasons


def _starts(plan: SweepPlan, equilibria: "Mapping[float, Equilibrium]", rows: Hyper) -> np.ndarray:
    """Parameters [Q, D] at step 0."""
    initial = np.asarray(plan.learner.bandit.initial_parameters)
    starts = np.tile(initial, (len(rows.momentum), 1))
    if plan.settings.sampled.start == "initial" or not equilibria or plan.curves:
        return starts
    for q, weight in enumerate(rows.kl_weight):
        point = equilibria[float(weight)].point
        if point.theta is not None:
            away = initial - point.theta if np.any(initial != point.theta) else point.basis[:, 0]
            starts[q] = point.theta + NUDGE * away
    return starts


def noise_scale(
    learner: Learner, settings: Settings, linear: LinearTheory, setting: tuple[float, float], rates: np.ndarray
) -> tuple[np.ndarray, str | None]:
    """Noise scale [P] of the expected reward: the stationary std far below the threshold, grown with sqrt(eta).

    Or NaN and why there is none. setting: (momentum, refresh interval). rates: learning rates [P], ascending.
    """
    if linear.policy is None:
        return np.full(len(rates), np.nan), linear.unsupported_reason()
    means = np.asarray(learner.bandit.true_means)[0]
    momentum, interval = setting
    noise = noise_covariance(learner, linear.policy)
    small = SMALL * min(linear.rate("threshold", interval, momentum).value or np.inf, float(rates[0]))
    base, _ = stationary_stds(linear, noise, means, (small, momentum, interval), settings.batch_reuse)
    if base.value is None:
        return np.full(len(rates), np.nan), base.reason
    return base.value * np.sqrt(rates / small), None
