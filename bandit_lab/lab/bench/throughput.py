"""Sizes A to D: seed-steps per second of every implementation, ratios, agreement, first call and memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.app.document import Block, Column, Document, Figure, On, Paragraph, Table
from bandit_lab.app.document.value import number
from bandit_lab.app.settings.bench import BenchSettings
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.lab.bench.engines import ENGINES, Run, shortened
from bandit_lab.lab.bench.numpy_reference import kurtosis
from bandit_lab.lab.bench.probe import probe
from bandit_lab.lab.bench.timing import SLICE, Timed, TimeRatio, agreement, in_turn, ratio
from bandit_lab.lab.bench.workload import Case, case_columns, cases

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure as Drawn


@dataclass(frozen=True)
class ThroughputRow:
    """One case. engines: what is known of each implementation, by name. timed: its times and curves."""

    case: Case
    engines: dict[str, dict[str, Any]]
    timed: dict[str, Timed]
    kurtosis: np.ndarray | None

    def ratio(self, name: str, engine: str = "fast") -> TimeRatio:
        """Speed of `engine` over that of the implementation `name`."""
        work = shortened(engine, self.case).seed_steps / shortened(name, self.case).seed_steps
        return ratio(self.timed[name].seconds, self.timed[engine].seconds, work)

    def agreement(self, name: str) -> dict[str, float | int]:
        """How near the curves of the fast path are to those of an implementation."""
        return agreement(self.timed["fast"].curves, self.timed[name].curves, self.kurtosis)

    @property
    def alone(self) -> dict[str, Any] | None:
        """Throughput of the fast path in a process of its own."""
        return self.engines["fast"].get("alone")

    @property
    def first_call(self) -> float:
        """Seconds, with compilation."""
        return float(self.alone["first_seconds"] if self.alone else self.engines["fast"]["first_call_here_seconds"])

    @property
    def worst(self) -> str:
        """Largest |z| against NumPy, or the largest difference of exact curves."""
        found = self.agreement("numpy")
        if "mean_z" in found:
            return number(max(found["mean_z"], found["variance_z"]), 2)
        return f"{found['mean_difference']:.0e}"


def _speed(name: str) -> Callable[[ThroughputRow], float]:
    return lambda row: row.engines[name]["seed_steps_per_second"] / 1e6


def _range(row: ThroughputRow) -> str:
    return f"{number(row.ratio('numpy').low, 3)}..{number(row.ratio('numpy').high, 3)}"


def _memory(row: ThroughputRow) -> float | None:
    return row.alone["above_import_bytes"] / 1e6 if row.alone else None


def _ratios(row: ThroughputRow) -> dict[str, dict[str, float]]:
    pairs = (("fast", "numpy"), ("fast", "reference"), ("reference", "numpy"))
    return {f"{engine}_over_{name}": row.ratio(name, engine)._asdict() for engine, name in pairs}


COLUMNS: tuple[Column[ThroughputRow], ...] = (
    *case_columns(lambda row: row.case),
    Column("case", "case", lambda row: row.case.label),
    Column("engines", "engines", lambda row: row.engines, on=On.JSON),
    Column("ratios", "ratios", _ratios, on=On.JSON),
    Column(
        "agreement",
        "agreement",
        lambda row: {f"fast_{name}": row.agreement(name) for name in ("numpy", "reference")},
        on=On.JSON,
    ),
    *(Column(name, name, _speed(name), digits=3, on=On.SHOWN) for name in ENGINES),
    Column("fast_over_numpy", "fast/numpy", lambda row: row.ratio("numpy").median, digits=3, on=On.SHOWN),
    Column("range", "(range)", _range, on=On.SHOWN),
    Column(
        "reference_over_numpy",
        "reference/numpy",
        lambda row: row.ratio("numpy", "reference").median,
        digits=3,
        on=On.SHOWN,
    ),
    Column("first_call", "first call, s", lambda row: row.first_call, digits=2, on=On.SHOWN),
    Column("memory", "memory, MB", _memory, digits=3, on=On.SHOWN),
    Column("worst", "worst |z|", lambda row: row.worst, on=On.SHOWN),
)
_NOTE = (
    "Ratios: medians (smallest..largest) over repetitions in turn. z: of mean and variance, fast against numpy (D: "
    "largest difference of the mean). First call: with compilation; "
)
_HERE, _ALONE = "here.", "nothing cached, and memory: peak above import jax, both in a process of its own."


def measure(settings: BenchSettings, threads: int, progress: Progress) -> Document:
    """A row per case, and `throughput.png`."""
    kinds = [kind == "bernoulli" for kind in settings.rewards]
    chosen = cases(settings.sizes, kinds, settings.intervals, settings.seeds, settings.steps)
    rows = [_row(case, settings, threads, progress) for case in chosen]
    data = _dataset(rows)
    blocks: list[Block] = [
        Table(rows, COLUMNS, name="rows", on=On.JSON),
        Table(rows, COLUMNS, title="million seed-steps per second", on=On.TERMINAL),
        Paragraph(_NOTE + (_ALONE if rows[0].alone else _HERE)),
        Figure(lambda: _drawn(data), "speed of every implementation, in million seed-steps per second", "throughput"),
    ]
    return Document("Throughput", {"": blocks}, data)


def _row(case: Case, settings: BenchSettings, threads: int, progress: Progress) -> ThroughputRow:
    runs: dict[str, Run] = {}
    engines: dict[str, dict[str, Any]] = {}
    with progress.stage(f"{case.label}: first calls"):
        for name, make in ENGINES.items():
            start = time.perf_counter()
            runs[name] = make(shortened(name, case), settings.rng, threads)
            runs[name](settings.seed)
            engines[name] = {
                "steps": shortened(name, case).steps,
                "first_call_here_seconds": time.perf_counter() - start,
            }
    least = SLICE / 4 if settings.quick else SLICE
    with progress.stage(f"{case.label}: in turn") as advance:
        timed = in_turn(runs, settings.reps, settings.seed, advance, least)
    for name, found in timed.items():
        rates = shortened(name, case).seed_steps / found.seconds
        engines[name] |= {"seed_steps_per_second": float(np.median(rates)), "fastest": float(rates.max())}
    if not settings.quick:
        with progress.stage(f"{case.label}: alone in a process"):
            for name in ("numpy", "fast"):
                engines[name] |= {"alone": probe(name, case, settings.rng, threads)}
    tail = None if case.mean_field else kurtosis(case, settings.seed + 10**6)
    return ThroughputRow(case, engines, timed, tail)


def _dataset(rows: list[ThroughputRow]) -> "xarray.Dataset":
    import xarray

    names = list(ENGINES)
    seconds = np.stack([[row.timed[name].seconds for name in names] for row in rows])
    work = np.array([[shortened(name, row.case).seed_steps for name in names] for row in rows])
    ratios = np.array([[row.ratio(name).median for name in names] for row in rows])
    what = {"units": "", "meaning": "median ratio of speeds, fast over this"}
    return xarray.Dataset(
        {
            "seconds": (("case", "engine", "repetition"), seconds, {"units": "seconds per call"}),
            "work": (("case", "engine"), work, {"units": "seed-steps per call"}),
            "fast_over": (("case", "engine"), ratios, what),
        },
        {"case": [row.case.label for row in rows], "engine": names},
        {"sizes": "; ".join(dict.fromkeys(_size(row.case) for row in rows))},
    )


def _size(case: Case) -> str:
    groups = "mean field" if case.mean_field else f"G = {case.group_size}"
    return f"{case.name}: {case.arms} arms, {groups}"


def _drawn(results: "xarray.Dataset") -> "Drawn":
    from bandit_lab.lab.bench.plot import throughput_bars

    return throughput_bars(results)
