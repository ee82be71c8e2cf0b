"""How speed changes with seeds, arms, group size, settings, refresh interval and cores: `scaling.png`.

python -m benchmarks.scaling [--quick] [--picture outputs/scaling.png]
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter

from bandit_lab.app.plots.style import BLACK, BLUE, COLUMN, column, put_above, save, style
from benchmarks import machine
from benchmarks.engines import fast_engine
from benchmarks.timing import SLICE, in_turn
from benchmarks.workload import Case

BASE = Case("B", 8, 16, 65_536, 100)
PANELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "seeds": ("seeds", (64, 512, 4096, 32_768, 262_144)),
    "arms": ("arms", (2, 4, 8, 16, 32, 64)),
    "group_size": ("group size", (4, 8, 16, 32, 64, 128)),
    "settings": ("settings (262,144 runs)", (1, 16, 256, 4096)),
    "interval": ("refresh interval N", (1, 2, 4, 8, 16, 64)),
    "threads": ("cores", (1, 2, 4, 8, 16, 32, 64)),
}


def points(quick: bool, cores: int) -> Iterator[tuple[str, int, Case, int]]:
    """(panel, where on its axis, what is run, threads) of all points."""
    for panel, (_, values) in PANELS.items():
        for x in values[:3] if quick else values:
            changes: dict[str, Any] = {} if panel == "threads" else {panel: x}
            changes |= {"seeds": 262_144} if panel == "settings" else {}
            if panel != "threads" or x <= cores:
                yield panel, x, replace(BASE, **changes), x if panel == "threads" else cores


def rate(case: Case, threads: int, reps: int) -> float:
    """Seed-steps per second of the fast path."""
    run = fast_engine(case, "hash", threads)
    run(0)
    return case.seed_steps / float(np.median(in_turn({"fast": run}, reps, 0, SLICE / 4)["fast"].seconds))


def draw(speeds: dict[str, dict[int, float]], about: str, path: str) -> None:
    """Six panels on logarithmic axes; cores with the line of proportional speed."""
    with style(), column():
        figure, axes = plt.subplots(3, 2, figsize=(COLUMN, 4.4), sharey=True)
        for (panel, (label, _)), axis in zip(PANELS.items(), axes.flat, strict=True):
            x, speed = np.array(list(speeds[panel])), np.array(list(speeds[panel].values())) / 1e6
            axis.plot(x, speed, "o-", color=BLUE, markersize=3, linewidth=1.4)
            if panel == "threads":
                axis.plot(x, speed[0] * x / x[0], "--", color=BLACK, linewidth=1.0, label="in proportion")
                axis.legend()
            axis.set(xscale="log", yscale="log", xlabel=label)
            axis.set_xticks(x, [f"{v / 1000:.0f}k" if v > 999 else f"{v}" for v in x])
            axis.minorticks_off()
        figure.supylabel("million seed-steps per second", fontsize=8)
        axes[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        base = f"{BASE.arms} arms, groups of {BASE.group_size}, {BASE.seeds:,} seeds unless named"
        put_above(figure, finding(speeds), f"{base}; {about}")
        save(figure, path)


def finding(speeds: dict[str, dict[int, float]]) -> str:
    """What costs speed and what does not."""
    fall = {panel: max(row.values()) / min(row.values()) for panel, row in speeds.items()}
    free = max(fall["settings"], fall["interval"]) - 1
    return (
        f"Speed falls with arms ({fall['arms']:.0f} times) and group size ({fall['group_size']:.0f} times); "
        f"settings and intervals move it by {free:.0%}"
    )


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[int, float]]:
    """Measure, print, draw. Returns panel -> place -> seed-steps per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three points of every axis, once")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--picture", default="scaling.png")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)  # as in every command
    cores = machine.usable_cores()
    about = machine.line(cores)
    print(about)
    speeds: dict[str, dict[int, float]] = {panel: {} for panel in PANELS}
    for panel, x, case, threads in points(chosen.quick, cores):
        speeds[panel][x] = rate(case, threads, 1 if chosen.quick else chosen.reps)
        print(f"{panel:12}{x:9,}{speeds[panel][x] / 1e6:9.3g} million seed-steps per second", flush=True)
    many = speeds["settings"]
    print(f"One setting over {max(many):,} with as many runs in all: {many[1] / many[max(many)]:.3g} times as fast.")
    draw(speeds, about, chosen.picture)
    return speeds


if __name__ == "__main__":
    main()
