"""How speed changes with seeds, arms, group size, settings, refresh interval and cores, and memory with the work."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandit_lab.study.bench.engines import fast_engine
from bandit_lab.study.bench.probe import probe
from bandit_lab.study.bench.timing import SLICE, in_turn
from bandit_lab.study.bench.workload import Case
from bandit_lab.study.settings.bench import BenchSettings
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.progress import Progress

if TYPE_CHECKING:
    import xarray

BASE = Case("B", 8, 16, 65_536, 100)
PANELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "seeds": ("seeds", (64, 512, 4096, 32_768, 262_144)),
    "arms": ("arms K", (2, 4, 8, 16, 32, 64)),
    "group_size": ("group size G", (4, 8, 16, 32, 64, 128)),
    "settings": ("settings (262,144 runs in all)", (1, 16, 256, 4096)),
    "interval": ("refresh interval N, steps", (1, 2, 4, 8, 16, 64)),
    "cores": ("cores", (1, 2, 4, 8, 16, 32, 64)),
}
MEMORY_STEPS = (100, 1000, 10_000)
MEMORY_SEEDS = (10_000, 100_000, 1_000_000)
PAPER = (10_000_000, 1000)  # seeds, steps


class Point(NamedTuple):
    """One measurement: which panel, where on its axis, and what is run."""

    panel: str
    x: int
    case: Case


def points(settings: BenchSettings, cores: int) -> Iterator[Point]:
    """All points of the six panels."""
    base = replace(BASE, seeds=settings.seeds or BASE.seeds, steps=settings.steps or BASE.steps)
    for panel, (_, values) in PANELS.items():
        for x in values[:3] if settings.quick else values:
            if panel == "settings":
                yield Point(panel, x, replace(base, settings=x, seeds=settings.seeds or 262_144))
            elif panel != "cores":
                change: dict[str, Any] = {panel: x}
                yield Point(panel, x, replace(base, **change))
            elif x <= cores:
                yield Point(panel, x, base)


def measure(settings: BenchSettings, threads: int, progress: Progress) -> "tuple[dict[str, Any], xarray.Dataset]":
    """(content of the summary, arrays)."""
    from bandit_lab.study.bench import usable_cores

    rows: list[dict[str, Any]] = []
    chosen = list(points(settings, usable_cores()))
    with progress.stage("speed") as advance:
        for number, point in enumerate(chosen, 1):
            rate = _rate(point, settings, threads)
            rows.append({"panel": point.panel, "x": point.x, "seed_steps_per_second": rate} | asdict(point.case))
            advance(number, len(chosen))
    memory: list[dict[str, Any]] = []
    shapes = list(_memory_shapes(settings))
    with progress.stage("memory") as advance:
        for number, (axis, seeds, steps) in enumerate(shapes, 1):
            found = probe("fast", replace(BASE, seeds=seeds, steps=steps), settings.rng, threads, calls=1)
            memory.append({"axis": axis, "seeds": seeds, "steps": steps} | found)
            advance(number, len(shapes))
    one, many = (_at(rows, "settings", x) for x in (1, max(r["x"] for r in rows if r["panel"] == "settings")))
    summary = {"rows": rows, "memory": memory, "one_setting_over_many": one / many}
    return summary, _dataset(rows, memory)


def _at(rows: list[dict[str, Any]], panel: str, x: int) -> float:
    return next(row["seed_steps_per_second"] for row in rows if (row["panel"], row["x"]) == (panel, x))


def _rate(point: Point, settings: BenchSettings, threads: int) -> float:
    """Seed-steps per second; another number of cores needs a process of its own."""
    if point.panel == "cores":
        found = probe("fast", point.case, settings.rng, point.x, cores=point.x)
        return point.case.seed_steps / found["later_seconds"]
    run = fast_engine(point.case, settings.rng, threads)
    run(settings.seed)
    reps = 1 if settings.quick else settings.reps
    timed = in_turn({"fast": run}, reps, settings.seed, lambda done, total: None, SLICE / 4)
    return point.case.seed_steps / float(np.median(timed["fast"].seconds))


def _memory_shapes(settings: BenchSettings) -> Iterator[tuple[str, int, int]]:
    """(axis, seeds, steps) of the memory measurements."""
    fewer = 2 if settings.quick else 3
    for steps in MEMORY_STEPS[:fewer]:
        yield "steps", MEMORY_SEEDS[0], steps
    for seeds in MEMORY_SEEDS[:fewer]:
        yield "seeds", seeds, MEMORY_STEPS[0]
    if settings.paper:
        yield "paper", *PAPER


def _dataset(rows: list[dict[str, Any]], memory: list[dict[str, Any]]) -> "xarray.Dataset":
    import xarray

    return xarray.Dataset(
        {
            "panel": ("point", [row["panel"] for row in rows]),
            "x": ("point", [row["x"] for row in rows]),
            "speed": ("point", [row["seed_steps_per_second"] for row in rows], {"units": "seed-steps per second"}),
            "memory_axis": ("process", [row["axis"] for row in memory]),
            "memory_seeds": ("process", [row["seeds"] for row in memory], {"units": "runs"}),
            "memory_steps": ("process", [row["steps"] for row in memory], {"units": "updates"}),
            "memory": ("process", [row["above_import_bytes"] for row in memory], {"units": "bytes above import jax"}),
            "peak": ("process", [row["peak_bytes"] for row in memory], {"units": "bytes"}),
        }
    )


def draw(results: "xarray.Dataset", folder: Path) -> None:
    """`scaling.png` and `memory.png`."""
    from bandit_lab.study.plots.bench import memory_panels, scaling_panels
    from bandit_lab.study.plots.style import style

    with style():
        scaling_panels(results, {name: label for name, (label, _) in PANELS.items()}).savefig(folder / "scaling.png")
        memory_panels(results).savefig(folder / "memory.png")


def print_table(summary: dict[str, Any]) -> None:
    """Speed along every axis, and memory."""
    table = report.new_table("million seed-steps per second", "axis", "values", "speed")
    for panel in dict.fromkeys(row["panel"] for row in summary["rows"]):
        mine = [row for row in summary["rows"] if row["panel"] == panel]
        speeds = ", ".join(report.number(row["seed_steps_per_second"] / 1e6, 3) for row in mine)
        table.add_row(PANELS[panel][0], ", ".join(f"{row['x']:,}" for row in mine), speeds)
    memory = report.new_table(
        "memory of a process", "seeds", "steps", "peak, MB", "above import jax, MB", "first call, s"
    )
    for row in summary["memory"]:
        sizes = (row["peak_bytes"] / 1e6, row["above_import_bytes"] / 1e6, row["first_seconds"])
        memory.add_row(f"{row['seeds']:,}", f"{row['steps']:,}", *(report.number(x, 4) for x in sizes))
    most = max(row["x"] for row in summary["rows"] if row["panel"] == "settings")
    ratio = report.number(summary["one_setting_over_many"], 3)
    report.show(table, memory, f"One setting over {most:,} settings with as many runs in all: {ratio} times as fast.")
