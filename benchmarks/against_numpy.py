"""Million seed-steps per second of NumPy, the reference path and the fast path, in turn.

    python -m benchmarks.against_numpy                                   # some minutes
    python -m benchmarks.against_numpy --quick --sizes A D
    python -m benchmarks.against_numpy --json outputs/speed.json --picture outputs/throughput.png

Ratios are medians over repetitions. z: largest of mean and variance, fast path against NumPy, over nine steps (D:
largest difference of the mean).
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from bandit_lab.app.plots.style import BLUE, COLUMN, GREY, ORANGE, column, save, style
from benchmarks import machine
from benchmarks.engines import ENGINES, shortened
from benchmarks.numpy_reference import kurtosis
from benchmarks.timing import SLICE, agreement, in_turn, ratio
from benchmarks.workload import SIZES, Case, cases

COLOURS = {"numpy": ORANGE, "reference": GREY, "fast": BLUE}
HEAD = (
    f"{'case':18}{'numpy':>9}{'reference':>11}{'fast':>9}{'fast/numpy':>12}{'ref./numpy':>12}{'first, s':>10}{'z':>9}"
)


def measured(case: Case, reps: int, rng: str, threads: int, least: float = SLICE) -> dict[str, Any]:
    """One case: speeds [seed-steps/s], ratios to NumPy, seconds of the fast path's first call, agreement."""
    runs, first = {}, {}
    for name, make in ENGINES.items():
        start = time.perf_counter()
        runs[name] = make(shortened(name, case), rng, threads)
        runs[name](0)
        first[name] = time.perf_counter() - start
    timed = in_turn(runs, reps, 0, least)
    work = {name: shortened(name, case).seed_steps for name in ENGINES}
    over = {
        name: ratio(timed["numpy"].seconds, timed[name].seconds, work[name] / work["numpy"])._asdict()
        for name in ("reference", "fast")
    }
    tail = None if case.mean_field else kurtosis(case, 10**6)
    return {
        "case": case.label,
        "seed_steps_per_second": {name: work[name] / float(np.median(timed[name].seconds)) for name in ENGINES},
        "over_numpy": over,
        "first_call_seconds": first,
        "agreement": agreement(timed["fast"].curves, timed["numpy"].curves, tail),
    }


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    speeds = {name: value / 1e6 for name, value in row["seed_steps_per_second"].items()}
    fast, reference = (row["over_numpy"][name]["median"] for name in ("fast", "reference"))
    found = row["agreement"]
    worst = max(found["mean_z"], found["variance_z"]) if "mean_z" in found else found["mean_difference"]
    told = f"{row['case']:18}{speeds['numpy']:9.3g}{speeds['reference']:11.3g}{speeds['fast']:9.3g}"
    return f"{told}{fast:12.3g}{reference:12.3g}{row['first_call_seconds']['fast']:10.2g}{worst:9.2g}"


def draw(rows: Sequence[dict[str, Any]], path: str) -> None:
    """Bars of every case on a logarithmic axis."""
    with style(), column():
        figure, axes = plt.subplots(figsize=(COLUMN, 0.75 + 0.32 * len(rows)))
        for place, (name, colour) in enumerate(COLOURS.items()):
            speeds = [row["seed_steps_per_second"][name] / 1e6 for row in rows]
            axes.barh(np.arange(len(rows)) + 0.27 * (place - 1), speeds, 0.27, color=colour, label=name)
        axes.set(xscale="log", yticks=range(len(rows)), yticklabels=[row["case"] for row in rows])
        axes.set_xlabel("million seed-steps per second")
        axes.invert_yaxis()
        figure.legend(loc="outside lower center", ncols=3)
        save(figure, path)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure and print. Returns the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--seeds", type=int, help="default 4,096 (D: 65,536 settings)")
    parser.add_argument("--steps", type=int, help="default 1,000 (C: 500)")
    parser.add_argument("--rng", default="hash", choices=("hash", "threefry"))
    parser.add_argument("--quick", action="store_true", help="fixed rewards, N = 1, 200 steps, 3 repetitions")
    parser.add_argument("--json", help="also write the rows there")
    parser.add_argument("--picture", help="also draw them there")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)  # as in every command
    kinds, intervals = ([False], [1]) if chosen.quick else ([False, True], [1, 8])
    steps = chosen.steps or (200 if chosen.quick else None)
    reps, threads = min(chosen.reps, 3) if chosen.quick else chosen.reps, machine.usable_cores()
    print(machine.line(threads), HEAD, sep="\n")
    rows = []
    for case in cases(chosen.sizes, kinds, intervals, chosen.seeds, steps):
        rows.append(measured(case, reps, chosen.rng, threads, SLICE / 4 if chosen.quick else SLICE))
        print(line(rows[-1]), flush=True)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"machine": machine.line(threads), "rows": rows}, indent=2))
    if chosen.picture:
        draw(rows, chosen.picture)
    return rows


if __name__ == "__main__":
    main()
