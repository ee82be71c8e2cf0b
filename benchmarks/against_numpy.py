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

from bandit_lab.app.plots.style import BLUE, COLUMN, ORANGE, column, put_above, save, style
from benchmarks import machine
from benchmarks.engines import ENGINES, shortened
from benchmarks.numpy_reference import kurtosis
from benchmarks.timing import SLICE, agreement, in_turn, ratio
from benchmarks.workload import SIZES, Case, cases

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
    apart = row["agreement"]
    worst = max(apart["mean_z"], apart["variance_z"]) if "mean_z" in apart else apart["mean_difference"]
    start = f"{row['case']:18}{speeds['numpy']:9.3g}{speeds['reference']:11.3g}{speeds['fast']:9.3g}"
    return f"{start}{fast:12.3g}{reference:12.3g}{row['first_call_seconds']['fast']:10.2g}{worst:9.2g}"


def draw(rows: Sequence[dict[str, Any]], about: str, path: str) -> None:
    """Speeds of every size on a logarithmic axis, with the range of the ratio."""
    sizes = [name for name in SIZES if any(row["case"][0] == name for row in rows)]
    ratios = [row["over_numpy"]["fast"]["median"] for row in rows]
    with style(), column():
        figure, axes = plt.subplots(figsize=(COLUMN, 0.9 + 0.35 * len(sizes)))
        for place, size in enumerate(sizes):
            kinds = [row for row in rows if row["case"][0] == size]
            for name, colour, label in (("numpy", ORANGE, "NumPy, vectorised"), ("fast", BLUE, "fast path")):
                speeds = [row["seed_steps_per_second"][name] / 1e6 for row in kinds]
                axes.plot(speeds, [place] * len(speeds), "o", color=colour, alpha=0.7, label="_" * place + label)
            times = [f"{one(row['over_numpy']['fast']['median'] for row in kinds):.0f}" for one in (min, max)]
            text = f"\u00d7 {' to '.join(dict.fromkeys(times))}"
            axes.text(1.02, place, text, va="center", fontsize=7, transform=axes.get_yaxis_transform())
        words = [f"{SIZES[s][0]} arms, {f'groups of {SIZES[s][1]}' if SIZES[s][1] else 'mean field'}" for s in sizes]
        axes.set(xscale="log", xlabel="million seed-steps per second", ylim=(len(sizes) - 0.5, -0.5))
        axes.set_yticks(range(len(sizes)), words)
        figure.legend(loc="outside lower center", ncols=2)
        finding = f"The fast path runs {min(ratios):.0f} to {max(ratios):.0f} times as fast as vectorised NumPy"
        put_above(figure, finding, f"fixed and Bernoulli rewards, refresh interval 1 and 8; {about}")
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
        draw(rows, machine.line(threads), chosen.picture)
    return rows


if __name__ == "__main__":
    main()
