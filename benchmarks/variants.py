"""What every registered rule costs per seed-step, over the plain rule at the same size, fast path.

    python -m benchmarks.variants                                     # half an hour or more
    python -m benchmarks.variants --quick --sizes A D --only gspo cispo
    python -m benchmarks.variants --plugins my_module --only my_rule
    python -m benchmarks.variants --quick --examples                  # those of docs/extending.md and the README

A bandit other than the workload's own is compared with a softmax over as many arms, one logit each: X K arms in all.
NumPy is the plain rule too, on that softmax: most rules would cost it more. A bandit with a policy of its own is also
compared with that `log_policy` and its pull-back, which an update cannot do without. Where these cost more than all the
rest, as a network's do, NumPy with a softmax does other work. Then this ratio tells what the engine adds.
What is out of reach is said too: the share of the machine's matrix products that `log_policy` and its pull-back would
fill at `GOAL` times the speed of NumPy.
"""

import argparse
import importlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bandit_lab.app.plugins import load, registries
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import Learner, Optimizer
from bandit_lab.simulation import fast
from benchmarks import machine
from benchmarks.engines import Run, ensemble_engine, numpy_engine
from benchmarks.policies import policy_engine, policy_flops, product_flops
from benchmarks.timing import SLICE, in_turn, ratio
from benchmarks.workload import SIZES, Case, cases

KINDS = ("advantage", "estimator", "kl_estimator", "sampler", "correction", "staleness", "optimizer")
COMMON_OPTAX = ("adam", "adamw")
"""Optimisers of optax that stand for those which keep second moments."""
POLICY_STEPS = 100  # of `log_policy` alone
GOAL = 5  # times NumPy
HEAD = f"{'size':14}{'rule':28}{'cost':>8}{'x NumPy':>9}{'x policy':>10}{'products':>10}{'first, s':>10}"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?@register_(?!diagnostic)\w+\(\"(?P<name>\w+)\"\).*?)```", re.DOTALL)


def examples() -> dict[str, str]:
    """name -> source of every variant on the pages that an update uses."""
    root = Path(__file__).parents[1]
    pages = [(root / place).read_text(encoding="utf-8") for place in ("docs/extending.md", "README.md")]
    blocks = [block for page in pages for block in re.findall(r"```python\n.*?```", page, re.DOTALL)]
    return {match["name"]: match["code"] for match in map(EXAMPLE.fullmatch, blocks) if match}


def register_examples() -> list[str]:
    """Register every example as it stands on its page. Returns their names."""
    folder, sources = tempfile.mkdtemp(), examples()
    sys.path.insert(0, folder)
    for name, code in sources.items():
        Path(folder, f"example_{name}.py").write_text(code, encoding="utf-8")
        importlib.import_module(f"example_{name}")
    return list(sources)


def variants(case: Case) -> Iterator[tuple[str, Learner, Learner]]:
    """(label, what is trained, what it is compared with): the case's own learner with one rule exchanged.

    Every rule of every registry, those of plugins too.
    """
    plain = case.learner()
    for kind in KINDS:
        for name in (*registries()[kind], *(COMMON_OPTAX if kind == "optimizer" else ())):
            rule: Any = Optimizer(name) if kind == "optimizer" else registries()[kind][name]()
            changed: dict[str, Any] = {kind: rule}
            if kind == "staleness":
                changed["horizon"] = rule.horizon_for(case.interval)
            yield f"{kind}={name}", replace(plain, **changed), plain
    for name in registries()["bandit"]:
        bandit: Any = registries()["bandit"][name]()
        arms = k_arm(np.linspace(0.2, 0.8, bandit.reference_log_policy.size).tolist())
        yield f"bandit={name}", replace(plain, bandit=bandit), replace(plain, bandit=arms)


def measured(case: Case, only: Sequence[str], reps: int, threads: int) -> Iterator[dict[str, Any]]:
    """One rule after another: its cost over that of the plain rule, its speed over NumPy's, or why it is not served."""
    ready: dict[int, tuple[Run, float]] = {}  # of what rules are compared with: a run, and its speed over NumPy's
    products = product_flops()

    def seconds(**runs: Run) -> dict[str, np.ndarray]:
        return {name: times.seconds for name, times in in_turn(runs, reps, 0, SLICE / 4).items()}

    def started(learner: Learner) -> Run:
        run = ensemble_engine(case, learner, "hash", threads)
        run(0)
        return run

    for label, learner, plain in variants(case):
        if only and label.partition("=")[2] not in only:
            continue
        if reason := fast.unsupported_reason(learner, case.dynamics):
            yield {"variant": label, "not_served": reason}
            continue
        start = time.perf_counter()
        rule, first = started(learner), time.perf_counter() - start
        if id(plain) not in ready:
            alike = replace(case, arms=plain.bandit.reference_log_policy.size)
            times = seconds(plain=(run := started(plain)), numpy=numpy_engine(alike, "hash", threads))
            ready[id(plain)] = run, ratio(times["numpy"], times["plain"]).median
        run, faster = ready[id(plain)]
        times = seconds(rule=rule, plain=run)
        cost, speed = ratio(times["rule"], times["plain"]).median, case.seed_steps / float(np.median(times["rule"]))
        row = {"variant": label, "cost": cost, "over_numpy": faster / cost, "first_call": first}
        if label.startswith("bandit=") and not learner.bandit.tabular:
            few = replace(case, steps=min(case.steps, POLICY_STEPS))
            alone, flops = policy_engine(few, learner.bandit, threads), policy_flops(learner.bandit)
            alone(0)
            times = seconds(rule=rule, alone=alone)
            row["over_policy"] = ratio(times["alone"], times["rule"], case.steps / few.steps).median
            row["of_products"] = None if flops is None else GOAL * speed * cost / faster * flops / products
        yield row


def line(case: Case, row: dict[str, Any]) -> str:
    """One row of the table."""
    if "not_served" in row:
        return f"{case.label:14}{row['variant']:28} reference path: {row['not_served']}"
    columns = (("cost", 8), ("over_numpy", 9), ("over_policy", 10), ("of_products", 10), ("first_call", 10))
    cells = [f"{'-' if row.get(key) is None else format(row[key], '.2f'):>{width}}" for key, width in columns]
    return f"{case.label:14}{row['variant']:28}{''.join(cells)}"


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure and print. Returns the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--only", nargs="+", default=[], help="names of rules and bandits")
    parser.add_argument("--plugins", nargs="+", default=[], help="modules to import first")
    parser.add_argument("--examples", action="store_true", help="the examples of the pages alone")
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="fixed rewards, N = 1, 200 steps, 3 repetitions")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)  # as in every command
    load(chosen.plugins)
    only = [*chosen.only, *(register_examples() if chosen.examples else ())]
    kinds, intervals, steps = ([False], [1], 200) if chosen.quick else ([False, True], [1, 8], None)
    reps, threads, rows = min(chosen.reps, 3) if chosen.quick else chosen.reps, machine.usable_cores(), []
    print(machine.line(threads), HEAD, sep="\n")
    for case in cases(chosen.sizes, kinds, intervals, None, steps):
        for row in measured(case, only, reps, threads):
            print(line(case, row), flush=True)
            rows.append({"case": case.label} | row)
    return rows


if __name__ == "__main__":
    main()
