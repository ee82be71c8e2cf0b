"""What every registered rule costs per seed-step, over the plain rule at the same size, fast path.

    python experiments/speed/variants.py                                     # half an hour or more
    python experiments/speed/variants.py quick=true 'sizes=[A,D]' 'only=[gspo,cispo]'
    python experiments/speed/variants.py 'plugins=[my_module]' 'only=[my_rule]'

A bandit other than the workload's own is compared with a softmax over as many arms, one logit each: X K arms in all.
NumPy is the plain rule too, on that softmax: most rules would cost it more. Only `random_mean`, whose work is that of
many steps, is compared with NumPy that averages over all ages too. A bandit with a policy of its own is also compared
with that `log_policy` and its pull-back, which an update cannot do without: where these cost more than all the rest, as
a network's do, NumPy with a softmax does other work, and this is the ratio that tells what the engine adds. What is out
of reach is said too: the share of the machine's matrix products that `log_policy` and its pull-back would fill at
`GOAL` times the speed of NumPy.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray

from bandit_lab import _checks
from bandit_lab.app.document import ABSENT, Block, Column, Document, On, Paragraph, Table
from bandit_lab.app.plugins import registries
from bandit_lab.app.settings.bench import BenchSettings
from bandit_lab.app.settings.schema import PROBLEM, setting
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.bandits import Bandit, k_arm
from bandit_lab.grpo import Learner, Optimizer, RandomMean
from bandit_lab.lab import bench
from bandit_lab.lab.bench.engines import Run, ensemble_engine, numpy_engine
from bandit_lab.lab.bench.timing import SLICE, TimeRatio, in_turn, ratio
from bandit_lab.lab.bench.workload import Case, case_columns, cases
from bandit_lab.simulation import fast
from experiments.shared import script
from experiments.speed.policies import policy_engine, policy_flops, product_flops

KINDS = ("advantage", "estimator", "kl_estimator", "sampler", "correction", "staleness", "optimizer")
COMMON_OPTAX = ("adam", "adamw")
"""Optimisers of optax that stand for those which keep second moments."""
POLICY_STEPS = 100  # of `log_policy` alone
GOAL = 5  # times NumPy
FEWEST_STEPS = 8  # of NumPy where a step is the work of many


@dataclass
class VariantSettings(BenchSettings):
    """Settings of this script."""

    only: list[str] = setting([], "", "names of rules and bandits, those of plugins too; [] is all", PROBLEM)


def names() -> list[str]:
    """Of every rule and bandit that can be measured."""
    return sorted({*COMMON_OPTAX, *(name for kind in (*KINDS, "bandit") for name in registries()[kind])})


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


@dataclass(frozen=True)
class VariantRow:
    """One rule at one size: its cost over that of the plain rule and its speed, or why it is not supported.

    over_policy: its speed over that of `policy_engine`, for policies of their own. of_products: operations per second
    of their `policy_flops` at GOAL times NumPy, over those of a matrix product; above 1 it cannot be. None where these
    are not known. first_call: seconds, with compilation unless a row before this one had the same program.
    """

    case: Case
    variant: str
    unsupported_reason: str | None
    cost: TimeRatio | None = None
    speed: float | None = None
    over_numpy: float | None = None
    over_policy: float | None = None
    of_products: float | None = None
    first_call: float | None = None


COLUMNS: tuple[Column[VariantRow], ...] = (
    *case_columns(lambda row: row.case),
    Column("case", "case", lambda row: row.case.label),
    Column("variant", "rule", lambda row: row.variant),
    Column("not_served", "why not supported", lambda row: row.unsupported_reason),
    Column("cost", "cost", lambda row: row.cost._asdict() if row.cost else ABSENT, on=On.JSON),
    Column("seed_steps_per_second", "seed-steps/s", lambda row: row.speed or ABSENT, on=On.JSON),
    Column("over_numpy", "times NumPy", lambda row: row.over_numpy or ABSENT, on=On.JSON),
    Column("over_policy", "times log_policy alone", lambda row: row.over_policy or ABSENT, on=On.JSON),
    Column("of_products", "share of products", lambda row: row.of_products or ABSENT, on=On.JSON),
    Column("first_call", "first call, s", lambda row: row.first_call or ABSENT, on=On.JSON),
)


def measure(settings: VariantSettings, threads: int, progress: Progress) -> Document:
    """A row per rule and size; the table is the picture."""
    kinds = [kind == "bernoulli" for kind in settings.rewards]
    chosen = cases(settings.sizes, kinds, settings.intervals, settings.seeds, settings.steps)
    rows = [row for case in chosen for row in _rows(case, settings, threads, progress)]
    reasons = {row.variant: row.unsupported_reason for row in rows if row.unsupported_reason}
    own = [row for row in rows if row.over_policy]
    of_policies: list[tuple[str, Callable[[VariantRow], float | None]]] = [
        ("speed over that of log_policy and its pull-back alone, under vmap", lambda row: row.over_policy),
        (
            f"share of float32 matrix products that log_policy and its pull-back would fill at {GOAL} times NumPy",
            lambda row: row.of_products,
        ),
    ]
    blocks: list[Block] = [
        Table(rows, COLUMNS, name="rows", on=On.JSON),
        _by_size(rows, "cost per seed-step over that of the default rules", "{:.2f}", _cost),
        _by_size(rows, "speed over that of NumPy", "{:.1f}", lambda row: row.over_numpy),
        *(_by_size(own, title, "{:.2f}", number) for title, number in of_policies if own),
        _by_size(rows, "first call in seconds (less where a row above had the same program)", "{:.1f}", _first_call),
        *(Paragraph(f"- {label}: reference path, {reason}") for label, reason in reasons.items()),
    ]
    return Document("Variants", {"": blocks}, _dataset(rows))


def _rows(case: Case, settings: VariantSettings, threads: int, progress: Progress) -> Iterator[VariantRow]:
    chosen = set(settings.only or names())
    rules = [rule for rule in variants(case) if rule[0].partition("=")[2] in chosen]
    ready: dict[int, tuple[Run, float]] = {}  # of what rules are compared with: a run, and its speed over NumPy's

    def timed(**runs: Run) -> dict[str, np.ndarray]:
        """Seconds [reps] of each."""
        found = in_turn(runs, settings.reps, settings.seed, lambda done, total: None, SLICE / 4)
        return {name: times.seconds for name, times in found.items()}

    def started(learner: Learner) -> Run:
        run = ensemble_engine(case, learner, settings.rng, threads)
        run(settings.seed)
        return run

    def over_numpy(run: Run, alike: Case) -> float:
        """Speed of a run over that of NumPy on a case like it, which may have fewer steps."""
        times = timed(plain=run, numpy=numpy_engine(alike, settings.rng, threads))
        return ratio(times["numpy"], times["plain"], case.steps / alike.steps).median

    def compared(plain: Learner) -> tuple[Run, float]:
        run = started(plain)
        return run, over_numpy(run, replace(case, arms=plain.bandit.reference_log_policy.size))

    def over_policy(run: Run, bandit: Bandit) -> float:
        few = replace(case, steps=min(case.steps, POLICY_STEPS))
        alone = policy_engine(few, bandit, threads)
        alone(settings.seed)
        times = timed(rule=run, alone=alone)
        return ratio(times["alone"], times["rule"], case.steps / few.steps).median

    products = product_flops()
    with progress.stage(f"{case.label}: {len(rules)} rules") as advance:
        for done, (label, learner, plain) in enumerate(rules, 1):
            row = VariantRow(case, label, fast.unsupported_reason(learner, case.dynamics))
            if row.unsupported_reason is None:
                start = time.perf_counter()
                rule = started(learner)
                row = replace(row, first_call=time.perf_counter() - start)
                if id(plain) not in ready:
                    ready[id(plain)] = compared(plain)
                run, faster = ready[id(plain)]
                times = timed(rule=rule, plain=run)
                cost, speed = ratio(times["rule"], times["plain"]), case.seed_steps / np.median(times["rule"])
                if isinstance(learner.staleness, RandomMean) and not case.mean_field:
                    own = replace(case, averages=True)
                    faster = over_numpy(run, replace(own, steps=max(case.steps // (own.horizon + 1), FEWEST_STEPS)))
                row = replace(row, cost=cost, speed=float(speed), over_numpy=faster / cost.median)
                if label.startswith("bandit=") and not getattr(learner.bandit, "tabular", False):
                    flops, at_goal = policy_flops(learner.bandit), GOAL * float(speed) * cost.median / faster
                    filled = None if flops is None else at_goal * flops / products
                    row = replace(row, over_policy=over_policy(rule, learner.bandit), of_products=filled)
            advance(done, len(rules))
            yield row


def _dataset(rows: list[VariantRow]) -> xarray.Dataset:
    sizes, labels = (
        list(dict.fromkeys(row.case.label for row in rows)),
        list(dict.fromkeys(row.variant for row in rows)),
    )
    cost = np.full((len(sizes), len(labels)), np.nan)
    for row in rows:
        if row.cost is not None:
            cost[sizes.index(row.case.label), labels.index(row.variant)] = row.cost.median
    units = {"units": "time per seed-step over that of the plain rule; NaN: not supported by the fast path"}
    return xarray.Dataset({"cost": (("case", "variant"), cost, units)}, {"case": sizes, "variant": labels})


def _cost(row: VariantRow) -> float | None:
    return None if row.cost is None else row.cost.median


def _first_call(row: VariantRow) -> float | None:
    return row.first_call


def _by_size(
    rows: list[VariantRow], title: str, written: str, number: Callable[[VariantRow], float | None]
) -> Table[str]:
    """One row per rule, one column per size."""
    numbers = {(row.variant, row.case.label): number(row) for row in rows}

    def at(size: str) -> Column[str]:
        def cell(rule: str) -> str | None:
            found = numbers[rule, size]
            return None if found is None else written.format(found) if found < 10 else f"{found:.0f}"

        return Column(size, size.replace("Bernoulli", "Bern"), cell)

    width = max(len(row.variant) for row in rows)
    columns = [Column[str]("rule", "rule", lambda rule: rule, width=width)]
    columns += [at(size) for size in dict.fromkeys(row.case.label for row in rows)]
    return Table(list(dict.fromkeys(row.variant for row in rows)), columns, title=title, on=On.SHOWN)


def prepare(settings: VariantSettings, explicit: frozenset[str]) -> bench.BenchPlan:
    """Check every setting. Raises ValueError."""
    for name in settings.only:
        _checks.choice("only", name, names())
    return bench.prepare(settings, explicit)


def compute(plan: bench.BenchPlan, progress: Progress) -> Document:
    """Measure what rules cost."""
    assert isinstance(plan.settings, VariantSettings)
    settings = plan.settings
    return bench.on_machine(plan, lambda: measure(settings, plan.threads, progress))


def main(arguments: Sequence[str]) -> int:
    """Run the script. Returns the exit code."""
    return script.run(arguments, "variants", __doc__, VariantSettings, prepare, compute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
