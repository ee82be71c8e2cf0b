"""Sampled runs as the chunks hold them, read a part at a time: never more of them in memory than a chunk or two.

Arrays of a chunk (c cells, s seeds, u units of seeds): unit_seeds [u], unit_mean and unit_square [c, u, T + 1] always;
where single runs are kept, every field of `Summary` [c, s] in the precision of the runs; else outcome_count
[c, u, outcomes], and of every field the mean over the finite runs of a unit [c, u] beside their number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from bandit_lab._types import Outcome
from bandit_lab.simulation import UNIT, Moments, Summary, pool

Judge = Callable[[Summary, np.ndarray], np.ndarray]
"""(Summary of arrays [c, s], places of the cells [c]) -> outcome codes [c, s]."""

NOT_RUN = -1  # in place of an outcome code, where a chunk failed
FIELDS = tuple(name for name in Summary._fields if name != "finite")
_MEAN = "mean_of_"


def run_arrays(summary: Summary, dtype: np.dtype) -> dict[str, np.ndarray]:
    """Arrays of a chunk that keeps single runs. Runs of `dtype` lose nothing in it."""
    return {name: value if name == "finite" else value.astype(dtype) for name, value in summary._asdict().items()}


def outcome_arrays(summary: Summary, codes: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays of a chunk that does not: counts of outcomes, and means over finite runs, for every unit of seeds."""
    parts = [slice(start, start + UNIT) for start in range(0, codes.shape[1], UNIT)]
    arrays = {"outcome_count": np.stack([count_codes(codes[:, part]) for part in parts], axis=1)}
    finite = np.asarray(summary.finite)
    arrays["finite_runs"] = np.stack([finite[:, part].sum(axis=1) for part in parts], axis=1)
    for name in FIELDS:
        values = np.asarray(getattr(summary, name), float)
        means = [[_mean(row[part][good[part]]) for part in parts] for row, good in zip(values, finite, strict=True)]
        arrays[_MEAN + name] = np.array(means)
    return arrays


def count_codes(codes: np.ndarray) -> np.ndarray:
    """How many runs [c, outcomes] ended in each outcome. codes: [c, s]."""
    return np.stack([np.sum(codes == outcome, axis=1) for outcome in Outcome], axis=1)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else np.nan


class Chunk(Protocol):
    """A chunk of sampled runs: its cells by place [c], its seeds first..first + seeds."""

    @property
    def index(self) -> np.ndarray: ...
    @property
    def first(self) -> int: ...
    @property
    def seeds(self) -> int: ...


class StoredRuns:
    """All sampled runs of a sweep, read from their chunks. Cells are numbered 0..C-1 in the order of the grid.

    load: the arrays of a chunk by its place. failed: place of a chunk that has none -> why.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        load: Callable[[int], Mapping[str, np.ndarray]],
        failed: Mapping[int, str],
        cells: int,
        seeds: int,
        times: int,
        keep: bool,
        judge: Judge,
    ) -> None:
        self.cells, self.seeds, self.times, self.keep, self._judge = cells, seeds, times, keep, judge
        self._chunks, self._failed = chunks, failed
        self._of_cell: list[list[int]] = [[] for _ in range(cells)]
        for number, chunk in enumerate(chunks):
            for cell in chunk.index:
                self._of_cell[cell].append(number)
        self._load = lru_cache(maxsize=2)(load)
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
                more = count_codes(self._codes(number)) if self.keep else arrays["outcome_count"].sum(axis=1)
                counts[chunk.index] += more
        return counts

    def means(self) -> dict[str, np.ndarray]:
        """Mean of every field over finite runs [C], where single runs are not kept. NaN where none is finite."""
        result = {name: np.full(self.cells, np.nan) for name in FIELDS}
        weight = {name: np.zeros(self.cells) for name in FIELDS}
        for number, chunk in enumerate(self._chunks):
            if number in self._failed:
                continue
            arrays = self._load(number)
            for unit, runs in enumerate(arrays["finite_runs"].T):
                for name in FIELDS:
                    _add(result[name], weight[name], chunk.index, arrays[_MEAN + name][:, unit], runs)
        return result

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


def _add(mean: np.ndarray, weight: np.ndarray, index: np.ndarray, part: np.ndarray, runs: np.ndarray) -> None:
    """Pool one unit's means over `runs` runs into `mean` [C] of `weight` [C], in place."""
    some = runs > 0
    at, more = index[some], runs[some]
    total = weight[at] + more
    before = np.where(weight[at] > 0, mean[at], 0.0)
    mean[at] = before + (part[some] - before) * (more / total)
    weight[at] = total
