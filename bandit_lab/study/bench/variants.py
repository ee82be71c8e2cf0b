"""What every registered rule costs per seed-step, over the plain rule at the same size, fast path."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.grpo import Learner, Optimizer
from bandit_lab.simulate import fast
from bandit_lab.study.bench.engines import Run, ensemble_engine
from bandit_lab.study.bench.timing import SLICE, in_turn, ratio
from bandit_lab.study.bench.workload import Case, cases
from bandit_lab.study.plugins import registries
from bandit_lab.study.settings.bench import BenchSettings
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.progress import Progress

if TYPE_CHECKING:
    import xarray

KINDS = ("advantage", "estimator", "kl_estimator", "staleness", "optimizer")
COMMON_OPTAX = ("adam", "adamw")
"""Optimisers of optax that stand for those which keep second moments."""


def variants(case: Case) -> Iterator[tuple[str, Learner]]:
    """(label, what is trained): the case's own learner with one rule exchanged, for every rule of every registry."""
    plain = case.learner()
    for kind in KINDS:
        for name in (*registries()[kind], *(COMMON_OPTAX if kind == "optimizer" else ())):
            rule: Any = Optimizer(name) if kind == "optimizer" else registries()[kind][name]()
            changed: dict[str, Any] = {kind: rule}
            if kind == "staleness":
                changed["horizon"] = rule.horizon_for(case.interval)
            yield f"{kind}={name}", replace(plain, **changed)


def measure(settings: BenchSettings, threads: int, progress: Progress) -> "tuple[dict[str, Any], xarray.Dataset]":
    """(content of the summary, arrays)."""
    kinds = [kind == "bernoulli" for kind in settings.rewards]
    chosen = cases(settings.sizes, kinds, settings.intervals, settings.seeds, settings.steps)
    rows = [row for case in chosen for row in _rows(case, settings, threads, progress)]
    return {"rows": rows}, _dataset(rows)


def _rows(case: Case, settings: BenchSettings, threads: int, progress: Progress) -> Iterator[dict[str, Any]]:
    rules = list(variants(case))
    plain = ensemble_engine(case, case.learner(), settings.rng, threads)
    plain(settings.seed)
    with progress.stage(f"{case.label}: {len(rules)} rules") as advance:
        for number, (label, learner) in enumerate(rules, 1):
            row: dict[str, Any] = asdict(case) | {"case": case.label, "variant": label}
            row["not_served"] = fast.why_not(learner, case.dynamics)
            if row["not_served"] is None:
                run = ensemble_engine(case, learner, settings.rng, threads)
                run(settings.seed)
                pair: dict[str, Run] = {"rule": run, "plain": plain}
                timed = in_turn(pair, settings.reps, settings.seed, lambda done, total: None, SLICE / 4)
                row["cost"] = ratio(timed["rule"].seconds, timed["plain"].seconds)._asdict()
                row["seed_steps_per_second"] = case.seed_steps / float(np.median(timed["rule"].seconds))
            advance(number, len(rules))
            yield row


def _dataset(rows: list[dict[str, Any]]) -> "xarray.Dataset":
    import xarray

    sizes, labels = (list(dict.fromkeys(row[key] for row in rows)) for key in ("case", "variant"))
    cost = np.full((len(sizes), len(labels)), np.nan)
    for row in rows:
        if "cost" in row:
            cost[sizes.index(row["case"]), labels.index(row["variant"])] = row["cost"]["median"]
    units = {"units": "time per seed-step over that of the plain rule; NaN: not served by the fast path"}
    return xarray.Dataset({"cost": (("case", "variant"), cost, units)}, {"case": sizes, "variant": labels})


def draw(results: "xarray.Dataset", folder: Path) -> None:
    """Nothing: the table is the picture."""


def print_table(summary: dict[str, Any]) -> None:
    """One row per rule, one column per size."""
    sizes = list(dict.fromkeys(row["case"] for row in summary["rows"]))
    table = report.new_table(
        "cost per seed-step over that of the default rules", "rule", *(s.replace("Bernoulli", "Bern") for s in sizes)
    )
    table.columns[0].no_wrap = True
    for label in dict.fromkeys(row["variant"] for row in summary["rows"]):
        found = {row["case"]: row.get("cost") for row in summary["rows"] if row["variant"] == label}
        costs = [found[size] for size in sizes]
        table.add_row(label, *("-" if cost is None else _short(cost["median"]) for cost in costs))
    reasons = {row["variant"]: row["not_served"] for row in summary["rows"] if row["not_served"]}
    report.show(table, *(f"- {label}: reference path, {reason}" for label, reason in reasons.items()))


def _short(cost: float) -> str:
    return f"{cost:.2f}" if cost < 10 else f"{cost:.0f}"
