"""Sizes A to D: seed-steps per second of every implementation, ratios, agreement, first call and memory."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.study.bench.engines import ENGINES, Run, shortened
from bandit_lab.study.bench.numpy_reference import kurtosis
from bandit_lab.study.bench.probe import probe
from bandit_lab.study.bench.timing import SLICE, Timed, agreement, in_turn, ratio
from bandit_lab.study.bench.workload import Case, cases
from bandit_lab.study.settings.bench import BenchSettings
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.progress import Progress

if TYPE_CHECKING:
    import xarray


def measure(settings: BenchSettings, threads: int, progress: Progress) -> "tuple[dict[str, Any], xarray.Dataset]":
    """(content of the summary, arrays) of every case."""
    chosen = cases(
        settings.sizes, [kind == "bernoulli" for kind in settings.rewards], settings.intervals,
        settings.seeds, settings.steps,
    )  # fmt: skip
    rows, timed = [], []
    for case in chosen:
        row, times = _row(case, settings, threads, progress)
        rows.append(row)
        timed.append(times)
    return {"rows": rows}, _dataset(chosen, timed)


def _row(
    case: Case, settings: BenchSettings, threads: int, progress: Progress
) -> tuple[dict[str, Any], dict[str, Timed]]:
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
    curves = {name: found.curves for name, found in timed.items()}
    row = asdict(case) | {
        "case": case.label,
        "engines": engines,
        "ratios": {f"fast_over_{name}": _ratio(case, timed, name)._asdict() for name in ("numpy", "reference")},
        "agreement": {
            "fast_numpy": agreement(curves["fast"], curves["numpy"], tail),
            "fast_reference": agreement(curves["fast"], curves["reference"], tail),
        },
    }
    return row, timed


def _ratio(case: Case, timed: dict[str, Timed], name: str) -> Any:
    work = shortened("fast", case).seed_steps / shortened(name, case).seed_steps
    return ratio(timed[name].seconds, timed["fast"].seconds, work)


def _dataset(chosen: list[Case], timed: list[dict[str, Timed]]) -> "xarray.Dataset":
    import xarray

    names = list(ENGINES)
    seconds = np.stack([[times[name].seconds for name in names] for times in timed])
    work = np.array([[shortened(name, case).seed_steps for name in names] for case in chosen])
    ratios = np.array(
        [[_ratio(c, times, name).median for name in names] for c, times in zip(chosen, timed, strict=True)]
    )
    return xarray.Dataset(
        {
            "seconds": (("case", "engine", "repetition"), seconds, {"units": "seconds per call"}),
            "work": (("case", "engine"), work, {"units": "seed-steps per call"}),
            "fast_over": (
                ("case", "engine"),
                ratios,
                {"units": "", "meaning": "median ratio of speeds, fast over this"},
            ),
        },
        {"case": [case.label for case in chosen], "engine": names},
    )


def draw(results: "xarray.Dataset", folder: Path) -> None:
    """`throughput.png`."""
    from bandit_lab.study.plots.bench import throughput_bars
    from bandit_lab.study.plots.style import style

    with style():
        throughput_bars(results).savefig(folder / "throughput.png")


_COLUMNS = ("case", "numpy", "reference", "fast", "fast/numpy", "(range)", "fast/reference", "first call, s")
_NOTE = (
    "fast/numpy: median (smallest..largest) over repetitions in turn. z: of mean and variance, fast against numpy (D: "
    "largest difference of the mean). First call: with compilation; "
)
_HERE, _ALONE = "here.", "nothing cached, and memory: peak above import jax, both in a process of its own."


def print_table(summary: dict[str, Any]) -> None:
    """One row per case."""
    machine = summary["machine"]
    report.show(
        f"{machine['processor']}, {machine['usable_cores']} cores, {summary['threads']} threads, "
        f"jax {machine['versions']['jax']}, numpy {machine['versions']['numpy']}; "
        f"load before {report.number(machine['load_before'], 2)}"
    )
    table = report.new_table("million seed-steps per second", *_COLUMNS, "memory, MB", "worst |z|")
    for row in summary["rows"]:
        table.add_row(*_cells(row))
    alone = "alone" in summary["rows"][0]["engines"]["fast"]
    report.show(table, _NOTE + (_ALONE if alone else _HERE))


def _cells(row: dict[str, Any]) -> list[str]:
    engines, over = row["engines"], row["ratios"]["fast_over_numpy"]
    alone = engines["fast"].get("alone")
    agreed = row["agreement"]["fast_numpy"]
    return [
        row["case"],
        *(report.number(engines[name]["seed_steps_per_second"] / 1e6, 3) for name in ENGINES),
        report.number(over["median"], 3),
        f"{report.number(over['low'], 3)}..{report.number(over['high'], 3)}",
        report.number(row["ratios"]["fast_over_reference"]["median"], 3),
        report.number(alone["first_seconds"] if alone else engines["fast"]["first_call_here_seconds"], 2),
        report.number(alone["above_import_bytes"] / 1e6, 3) if alone else "-",
        report.number(max(agreed["mean_z"], agreed["variance_z"]), 2) if "mean_z" in agreed
        else f"{agreed['mean_difference']:.0e}",
    ]  # fmt: skip
