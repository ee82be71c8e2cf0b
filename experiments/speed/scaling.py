"""How speed changes with seeds, arms, group size, settings, refresh interval and cores, and memory with the work.

    python experiments/speed/scaling.py               # speed and memory, `scaling.png` and `memory.png`
    python experiments/speed/scaling.py quick=true    # three points of every axis
    python experiments/speed/scaling.py paper=true    # also 10^7 seeds x 1,000 steps

Settings are those of `bench`. Numbers of one machine are in docs/speed.md.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import xarray
from matplotlib.figure import Figure as Drawn
from matplotlib.ticker import FuncFormatter

from bandit_lab import _checks
from bandit_lab.app.document import Block, Column, Document, Figure, On, Paragraph, Table, Values
from bandit_lab.app.document.value import number
from bandit_lab.app.plots.heading import put_above
from bandit_lab.app.plots.style import BLACK, BLUE, COLUMN, SKY, VERMILION, column
from bandit_lab.app.settings.bench import BenchSettings
from bandit_lab.app.settings.schema import RUN, setting
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.lab import bench
from bandit_lab.lab.bench.engines import fast_engine
from bandit_lab.lab.bench.machine import usable_cores
from bandit_lab.lab.bench.probe import probe
from bandit_lab.lab.bench.timing import SLICE, in_turn
from bandit_lab.lab.bench.workload import Case, case_columns
from experiments.shared import script

BASE = Case("B", 8, 16, 65_536, 100)
PANELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "seeds": ("seeds", (64, 512, 4096, 32_768, 262_144)),
    "arms": ("arms K", (2, 4, 8, 16, 32, 64)),
    "group_size": ("group size G", (4, 8, 16, 32, 64, 128)),
    "settings": ("settings (262,144 runs)", (1, 16, 256, 4096)),
    "interval": ("refresh interval N", (1, 2, 4, 8, 16, 64)),
    "cores": ("cores", (1, 2, 4, 8, 16, 32, 64)),
}
MEMORY_STEPS = (100, 1000, 10_000)
MEMORY_SEEDS = (10_000, 100_000, 1_000_000)
PAPER = (10_000_000, 1000)  # seeds, steps


@dataclass
class ScalingSettings(BenchSettings):
    """Settings of this script."""

    paper: bool = setting(False, "", "also 10^7 seeds x 1,000 steps", RUN)


class Point(NamedTuple):
    """One measurement: which panel, where on its axis, and what is run."""

    panel: str
    x: int
    case: Case


def points(settings: ScalingSettings, cores: int) -> Iterator[Point]:
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


@dataclass(frozen=True)
class Speed:
    """Seed-steps per second at one point."""

    point: Point
    rate: float


class Memory(NamedTuple):
    """What a process of its own did with so many seeds and steps."""

    axis: str
    seeds: int
    steps: int
    found: dict[str, Any]


SPEEDS: tuple[Column[Speed], ...] = (
    Column("panel", "axis", lambda row: row.point.panel),
    Column("x", "value", lambda row: row.point.x),
    Column("seed_steps_per_second", "speed", lambda row: row.rate),
    *case_columns(lambda row: row.point.case),
)
MEMORY: tuple[Column[Memory], ...] = (
    Column("axis", "axis", lambda row: row.axis, on=On.JSON),
    Column("seeds", "seeds", lambda row: row.seeds, text=lambda row: f"{row.seeds:,}"),
    Column("steps", "steps", lambda row: row.steps, text=lambda row: f"{row.steps:,}"),
    Column("peak", "peak, MB", lambda row: row.found["peak_bytes"] / 1e6, on=On.SHOWN),
    Column("above", "above import jax, MB", lambda row: row.found["above_import_bytes"] / 1e6, on=On.SHOWN),
    Column("first", "first call, s", lambda row: row.found["first_seconds"], on=On.SHOWN),
)


def measure(settings: ScalingSettings, threads: int, progress: Progress) -> Document:
    """Speed along every axis, memory, `scaling.png` and `memory.png`."""
    rows: list[Speed] = []
    chosen = list(points(settings, usable_cores()))
    with progress.stage("speed") as advance:
        for done, point in enumerate(chosen, 1):
            rows.append(Speed(point, _rate(point, settings, threads)))
            advance(done, len(chosen))
    memory: list[Memory] = []
    shapes = list(_memory_shapes(settings))
    with progress.stage("memory") as advance:
        for done, (axis, seeds, steps) in enumerate(shapes, 1):
            found = probe("fast", replace(BASE, seeds=seeds, steps=steps), settings.rng, threads, calls=1)
            memory.append(Memory(axis, seeds, steps, found))
            advance(done, len(shapes))
    speeds = {row.point.x: row.rate for row in rows if row.point.panel == "settings"}
    most, data = max(speeds), _dataset(rows, memory)
    times = speeds[1] / speeds[most]
    largest = [{"axis": row.axis, "seeds": row.seeds, "steps": row.steps} | row.found for row in memory]
    blocks: list[Block] = [
        Table(rows, SPEEDS, name="rows", on=On.JSON),
        Values({"memory": largest}, on=On.JSON),
        Values({"one_setting_over_many": times}, on=On.JSON),
        _by_axis(rows),
        Table(memory, MEMORY, title="memory of a process", on=On.SHOWN),
        Paragraph(f"One setting over {most:,} settings with as many runs in all: {number(times, 3)} times as fast."),
        Figure(lambda: scaling_panels(data), "speed against seeds, arms, group size and more", "scaling"),
        Figure(lambda: memory_panels(data), "memory against steps and seeds", "memory"),
    ]
    return Document("Scaling", {"": blocks}, data)


def _rate(point: Point, settings: ScalingSettings, threads: int) -> float:
    """Seed-steps per second; another number of cores needs a process of its own."""
    if point.panel == "cores":
        found = probe("fast", point.case, settings.rng, point.x, cores=point.x)
        return point.case.seed_steps / found["later_seconds"]
    run = fast_engine(point.case, settings.rng, threads)
    run(settings.seed)
    reps = 1 if settings.quick else settings.reps
    timed = in_turn({"fast": run}, reps, settings.seed, lambda done, total: None, SLICE / 4)
    return point.case.seed_steps / float(np.median(timed["fast"].seconds))


def _memory_shapes(settings: ScalingSettings) -> Iterator[tuple[str, int, int]]:
    """(axis, seeds, steps) of the memory measurements."""
    fewer = 2 if settings.quick else 3
    for steps in MEMORY_STEPS[:fewer]:
        yield "steps", MEMORY_SEEDS[0], steps
    for seeds in MEMORY_SEEDS[:fewer]:
        yield "seeds", seeds, MEMORY_STEPS[0]
    if settings.paper:
        yield "paper", *PAPER


def _dataset(rows: list[Speed], memory: list[Memory]) -> xarray.Dataset:
    above, peak = ([row.found[f"{name}_bytes"] for row in memory] for name in ("above_import", "peak"))
    return xarray.Dataset(
        {
            "panel": ("point", [row.point.panel for row in rows]),
            "x": ("point", [row.point.x for row in rows]),
            "speed": ("point", [row.rate for row in rows], {"units": "seed-steps per second"}),
            "memory_axis": ("process", [row.axis for row in memory]),
            "memory_seeds": ("process", [row.seeds for row in memory], {"units": "runs"}),
            "memory_steps": ("process", [row.steps for row in memory], {"units": "updates"}),
            "memory": ("process", above, {"units": "bytes above import jax"}),
            "peak": ("process", peak, {"units": "bytes"}),
        }
    )


def finding(results: xarray.Dataset) -> str:
    """How much slower the longest axis of arms and groups is, and what settings and refresh intervals cost."""
    panel, speed = results["panel"].values, results["speed"].values
    ends = {name: speed[panel == name][[0, -1]] for name in ("arms", "group_size", "settings", "interval")}
    arms, groups = (ends[name][0] / ends[name][1] for name in ("arms", "group_size"))
    free = max(abs(first / last - 1) for first, last in (ends["settings"], ends["interval"]))
    told = f"Arms and answers per group cost ({arms:.2g} and {groups:.2g} times from end to end)"
    return f"{told}; settings side by side and refresh intervals are free within {free:.0%}"


def scaling_panels(results: xarray.Dataset) -> Drawn:
    """Six panels of speed on logarithmic axes; cores with the line of proportional speed."""
    with column():
        return _speed_panels(results)


def _speed_panels(results: xarray.Dataset) -> Drawn:
    figure, axes = plt.subplots(3, 2, figsize=(COLUMN, 4.4), sharey=True)
    for (panel, (label, _)), axis in zip(PANELS.items(), axes.flat, strict=True):
        mine = results["panel"].values == panel
        x, speed = results["x"].values[mine], results["speed"].values[mine] / 1e6
        axis.plot(x, speed, "o-", color=BLUE, markersize=3, linewidth=1.4)
        if panel == "cores" and len(x):
            axis.plot(x, speed[0] * x / x[0], "--", color=BLACK, linewidth=1.0, label="in proportion")
            axis.legend()
        axis.set(xscale="log", yscale="log", xlabel=label)
        if len(x):
            axis.set_xticks(x, [f"{v / 1000:.0f}k" if v > 999 else f"{v}" for v in x])
        axis.minorticks_off()
    lowest, highest = axes[0, 0].get_ylim()
    if highest / lowest < 10:  # at least a decade, or noise fills the picture
        axes[0, 0].set_ylim(lowest / 2, highest * 2)
    figure.supylabel("million seed-steps per second", fontsize=8)
    axes[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    about = results.attrs
    base = f"size {BASE.name}: {BASE.arms} arms, G = {BASE.group_size}, {BASE.seeds:,} seeds, if not said otherwise"
    put_above(figure, finding(results), [f"{base}; {about['threads']} threads on {about['processor']}"])
    return figure


def memory_panels(results: xarray.Dataset) -> Drawn:
    """Peak memory above that of importing JAX against steps and against seeds."""
    with column():
        return _memory_panels(results)


def _memory_panels(results: xarray.Dataset) -> Drawn:
    figure, axes = plt.subplots(1, 2, figsize=(COLUMN, 2.2), sharey=True)
    kinds = results["memory_axis"].values
    for axis, name, colour in zip(axes, ("steps", "seeds"), (SKY, VERMILION), strict=True):
        mine = (kinds == name) | ((kinds == "paper") & (name == "seeds"))
        axis.plot(results[f"memory_{name}"].values[mine], results["memory"].values[mine] / 1e6, "o-", color=colour)
        other = "seeds" if name == "steps" else "steps"
        fixed = results[f"memory_{other}"].values[kinds == name][0]
        axis.set(xscale="log", xlabel=f"{name} ({fixed:,} {other})")
    axes[0].set_ylim(0, 1.2 * float(results["memory"].max()) / 1e6)
    axes[0].set_ylabel("MB above import jax")
    highest, work = float(results["memory"].max()) / 1e6, results["memory_seeds"] * results["memory_steps"]
    found = f"A process needs at most {highest:.0f} MB above import jax for {int(work.max()):,} seed-steps"
    put_above(figure, found, [f"size {BASE.name}: {BASE.arms} arms, G = {BASE.group_size}"])
    return figure


def _by_axis(rows: list[Speed]) -> Table[str]:
    """One row per axis."""

    def joined(panel: str, word: Callable[[Speed], str]) -> str:
        return ", ".join(word(row) for row in rows if row.point.panel == panel)

    columns = [
        Column[str]("axis", "axis", lambda panel: PANELS[panel][0]),
        Column[str]("values", "values", lambda panel: joined(panel, lambda row: f"{row.point.x:,}")),
        Column[str]("speed", "speed", lambda panel: joined(panel, lambda row: number(row.rate / 1e6, 3))),
    ]
    panels = list(dict.fromkeys(row.point.panel for row in rows))
    return Table(panels, columns, title="million seed-steps per second", on=On.SHOWN)


def prepare(settings: ScalingSettings, explicit: frozenset[str]) -> bench.BenchPlan:
    """Check every setting. Raises ValueError."""
    if settings.paper:
        _checks.require(not settings.quick, "quick", "false, as paper=true is given", settings.quick)
    return bench.prepare(settings, explicit)


def compute(plan: bench.BenchPlan, progress: Progress) -> Document:
    """Measure speed and memory."""
    assert isinstance(plan.settings, ScalingSettings)
    settings = plan.settings
    return bench.on_machine(plan, lambda: measure(settings, plan.threads, progress))


def main(arguments: Sequence[str]) -> int:
    """Run the script. Returns the exit code."""
    return script.run(arguments, "scaling", __doc__, ScalingSettings, prepare, compute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
