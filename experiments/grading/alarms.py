"""How often `watch` is wrong about healthy runs, and how late it is about failures put in at a known step.

python experiments/grading/alarms.py seed=2027        # the table of docs/watch.md, stored as figures/watch.json
python experiments/grading/alarms.py split=training   # on these, limits may be chosen
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from grpo_clinic.monitor import Alarm, Monitor
from grpo_clinic.readers.record import Curve

from bandit_lab import _checks
from bandit_lab.app.progress import Progress
from bandit_lab.app.result import Result, Table, Value
from bandit_lab.app.settings.config import RunSettings, setting
from experiments.grading.diagnoses import SPLITS
from experiments.grading.injections import FAILURES
from experiments.shared import script
from experiments.shared.sick_runs.logs import as_curve
from experiments.shared.sick_runs.plant import load, plant_one
from experiments.shared.sick_runs.simulate import simulate_all

PATIENCE = 0.5
"""Share of the run's rows after which the monitor calls a run without a gain stalled."""
BEGINS = (0.4, 0.7)
"""Shares of the run between which a failure sets in."""
TARGET = 0.05
LEVEL = 0.95
"""Of the interval of the rate of false alarms."""


@dataclass
class AlarmSettings(RunSettings):
    """Settings of this script."""

    split: str = setting("held_out", "", "training | held_out: the ranges that runs are drawn from")
    runs: int = setting(2000, "runs", "healthy ones; failures are put into every tenth of them")
    seed: int | None = setting(None, "", "root of all random numbers; null: that of the ranges")


@dataclass(frozen=True)
class Delay:
    """One failure in `runs` runs: `named` of them with an alarm of its name, `alarmed` with any alarm since it set in,
    `early` with one before.

    `rows` and `share` (of the run) are medians from its onset to the first alarm since, None where there was none.
    """

    failure: str
    runs: int
    named: int
    alarmed: int
    early: int
    rows: float | None
    share: float | None


def replay(curve: Curve, monitor: Monitor) -> list[Alarm]:
    """Give a finished log to a monitor row by row; the alarms."""
    columns = {name: dict(zip(one.step.tolist(), one.value.tolist(), strict=True)) for name, one in _columns(curve)}
    rewards = dict(zip(curve.step.tolist(), curve.reward.tolist(), strict=True))
    rewards |= dict.fromkeys(curve.nonfinite_steps.tolist(), float("nan"))
    alarms: list[Alarm] = []
    for step, reward in sorted(rewards.items()):
        row = {name: values[step] for name, values in columns.items() if step in values}
        alarms += monitor.feed(step, {**row, "reward": reward})
    return alarms


def _columns(curve: Curve) -> Iterable[tuple[str, Any]]:
    yield from ((name, one) for name, one in curve.series.items() if name in _NAMES)
    if curve.eval is not None:
        yield "eval_reward", curve.eval


_NAMES = ("entropy", "kl", "grad_norm", "zero_std_frac")


def monitor_of(curve: Curve, **options: Any) -> Monitor:
    """The monitor that a run is put to."""
    scale = (curve.scale.low, curve.scale.high) if curve.scale.given else None
    size = int(curve.settings.get("group_size", 0)) or None
    patience = max(round(PATIENCE * curve.reward.size), 24)
    return Monitor(scale=scale, group_size=size, patience=patience, **options)


def healthy_runs(split: str, runs: int, run: Progress, seed: int | None = None) -> list[Curve]:
    """Logs of runs by the lab's own update, all of them by the recipe `healthy`; seed None: that of the ranges."""
    ranges = load(split)
    root = int(ranges["seed"]) if seed is None else seed
    planted = [plant_one(ranges, "healthy", root, number) for number in range(runs)]
    with run.stage("healthy runs") as advance:
        return [as_curve(one) for one in simulate_all(planted, advance)]


def false_alarms(curves: Sequence[Curve], **options: Any) -> dict[str, int]:
    """Healthy runs with an alarm at any time, by failure.

    `any` counts every run once that had an alarm, `without_patience` once that had one beside `stalled`.
    """
    count = dict.fromkeys(("any", "without_patience", *FAILURES), 0)
    for curve in curves:
        raised = {one.failure for one in replay(curve, monitor_of(curve, **options))}
        count["any"] += bool(raised)
        count["without_patience"] += bool(raised - {"stalled"})
        for failure in raised:
            count[failure] += 1
    return count


def delay_of(failure: str, curves: Sequence[Curve], seed: int) -> Delay:
    """Put the failure into every curve, and see when it is found."""
    rows, shares, caught, early = [], [], 0, 0
    for number, curve in enumerate(curves):
        rng = np.random.default_rng([seed, number])
        size = curve.reward.size
        first = 0 if failure == "stalled" else round(float(rng.uniform(*BEGINS)) * size)
        alarms = replay(FAILURES[failure](curve, first, rng), monitor_of(curve))
        since = [one for one in alarms if one.row > first]
        early += len(since) < len(alarms)
        caught += any(one.failure == failure for one in since)
        if since:
            rows.append(since[0].row - 1 - first)
            shares.append(rows[-1] / size)
    middle = [float(np.median(values)) if values else None for values in (rows, shares)]
    return Delay(failure, len(curves), caught, len(rows), early, middle[0], middle[1])


def score(split: str, runs: int, run: Progress, seed: int | None = None) -> dict[str, Any]:
    """Everything: plain values for a result. seed None: that of the ranges."""
    seed = int(load(split)["seed"]) if seed is None else seed
    curves = healthy_runs(split, runs, run, seed)
    with run.stage("false alarms") as advance:
        wrong = false_alarms(curves)
        advance(1, 1)
    few = curves[: max(len(curves) // 10, 20)]
    delays = []
    with run.stage("delays") as advance:
        for failure in FAILURES:
            delays.append(delay_of(failure, few, seed))
            advance(len(delays), len(FAILURES))
    return {
        "split": split,
        "seed": seed,
        "runs": len(curves),
        "target": TARGET,
        "false_alarms": wrong,
        "delays": delays,
    }


def clopper_pearson(part: int, whole: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a rate (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy import stats

    rest = (1 - level) / 2
    low = float(stats.beta.ppf(rest, part, whole - part + 1)) if part else 0.0
    high = float(stats.beta.isf(rest, part + 1, whole - part)) if part < whole else 1.0
    return low, high


def result_of(scores: dict[str, Any]) -> Result:
    """Rates and delays."""
    wrong, runs = scores["false_alarms"], scores["runs"]
    low, high = clopper_pearson(wrong["any"], runs)
    delays = [
        {
            "failure": one.failure.replace("_", " "),
            "false_alarms": wrong[one.failure],
            "runs": one.runs,
            "alarmed": one.alarmed,
            "found": one.named,
            "early": one.early,
            "delay_rows": Value.of(one.rows, "never found", "rows"),
            "delay_share": Value.of(one.share, "never found", "1"),
        }
        for one in scores["delays"]
    ]
    text = (
        f"False alarms over whole runs: {wrong['any']} of {runs} healthy runs, {100 * wrong['any'] / runs:.2f} % "
        f"(95 % interval {100 * low:.2f} to {100 * high:.2f} %); promised without"
        f" patience: {100 * scores['target']:g} %. "
        f"Patience is half the run. Without it, which adds stalled: {wrong['without_patience']}."
    )
    values = {name: scores[name] for name in ("split", "seed", "runs", "target")}
    rate = {"value": wrong["any"] / runs, "interval_95": [low, high], "unit": ""}
    values |= {"false_alarm_rate": rate, "without_patience": wrong["without_patience"] / runs, "delays": delays}
    return Result(f"Alarms on simulated runs, {scores['split']}", {"watch": values}, [text, Table("delays", delays)])


def prepare(settings: AlarmSettings, explicit: frozenset[str]) -> script.ScriptPlan:
    """Check every setting. Raises ValueError."""
    _checks.choice("split", settings.split, SPLITS)
    _checks.integer("runs", settings.runs, 20)
    seed = int(load(settings.split)["seed"]) if settings.seed is None else settings.seed
    _checks.integer("seed", seed, 0)
    return script.ScriptPlan(replace(settings, seed=seed), precision="float32")


def compute(plan: script.ScriptPlan, progress: Progress) -> Result:
    """Simulate, watch and score."""
    return result_of(score(plan.settings.split, plan.settings.runs, progress, plan.settings.seed))


def main(arguments: Sequence[str]) -> int:
    """Run the script. Returns the exit code."""
    return script.run(arguments, "alarms", __doc__, AlarmSettings, prepare, compute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
