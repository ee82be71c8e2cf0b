"""Verdicts on public runs whose end a person wrote down: found failures and false alarms, with exact intervals.

The labels and the two halves are `conf/benchmark/real_runs.yaml`. A failure is found if one of the verdicts accepted
for it was given as more than a note. A false alarm is a healthy run with any failure that is more than a note.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from bandit_lab.curves import Curve
from bandit_lab.curves.backtest import BASELINES, Backtest, Cut, cut
from bandit_lab.curves.forecast import ForecastSettings
from bandit_lab.study.benchmark.plant import load

HALVES = ("development", "scoring")
NO_FAILURE = ("healthy", "not_judged")
"""Words of a verdict that name no failure."""
LEVEL = 0.95


def labels() -> dict[str, Any]:
    """The file of labels: `accepted`, and run -> label for each half."""
    return load("real_runs")


def share(part: int, whole: int) -> dict[str, Any]:
    """`part` of `whole` with the exact (Clopper-Pearson) interval of 95 %; no runs: null with the reason."""
    if not whole:
        return {"found": 0, "runs": 0, "share": None, "interval_95": None, "reason": "no such run was read"}
    ends = stats.binomtest(part, whole).proportion_ci(LEVEL, "exact")
    interval = [round(float(ends.low), 4), round(float(ends.high), 4)]
    return {"found": part, "runs": whole, "share": round(part / whole, 4), "interval_95": interval}


def harm(row: Mapping[str, Any]) -> frozenset[str]:
    """The failures of one row of `diagnose` that are more than notes."""
    grades = row["severity"]
    return frozenset(name for name in row["verdict"] if name not in NO_FAILURE and grades.get(name) != "note")


def score(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts per half from the rows of `diagnose` (`log`, `verdict`, `severity`).

    A run that is not among them, or has no verdict, counts as one in which nothing was found.
    """
    table = labels()
    judged = {row["log"]: row for row in rows if row["verdict"] is not None}
    return {half: _half(judged, table, half) for half in HALVES}


def score_forecasts(runs: Mapping[str, Curve], fewest: int, fractions: Sequence[float]) -> dict[str, Any]:
    """Per half: the last tenth of every run of `fewest` points or more, forecast from its first parts.

    Errors are over the range of the points seen; of the forecasts that were not refused, and of all.
    """
    table, found = labels(), {}
    for half in HALVES:
        cuts = [
            cut(name, runs[name].step, runs[name].reward, fraction, scale=runs[name].known_range)
            for name in table[half]
            if name in runs and runs[name].step.size >= fewest
            for fraction in fractions
        ]
        found[half] = _forecasts([(one.judge(ForecastSettings()), one) for one in cuts])
    return found


def _forecasts(tests: Sequence[tuple[Backtest, Cut]]) -> dict[str, Any]:
    made = [(test, one.prediction.seen) for test, one in tests if one.prediction is not None]
    kept = [pair for pair in made if not pair[0].forecast.refused]
    return {
        "runs": len({test.name for test, _ in tests}),
        "forecasts": len(tests),
        "refused": len(tests) - len(kept),
        "covered": share(sum(test.covered for test, _ in kept), len(kept)),
        "covered_with_refused": share(sum(test.covered for test, _ in made), len(made)),
        "median_error_over_range": _errors(kept, np.median),
        "mean_error_over_range": _errors(kept, np.mean),
        "median_error_with_refused": _errors(made, np.median),
    }


def _errors(tests: Sequence[tuple[Backtest, float]], mean: Callable[[list[float]], Any]) -> dict[str, float]:
    if not tests:
        return {}
    found = {"forecast": mean([abs(test.error) / seen for test, seen in tests])}
    found |= {name: mean([abs(test.baselines[name]) / seen for test, seen in tests]) for name in BASELINES}
    return {name: round(float(value), 4) for name, value in found.items()}


def _half(rows: Mapping[str, Mapping[str, Any]], table: Mapping[str, Any], half: str) -> dict[str, Any]:
    accepted, label = table["accepted"], table[half]
    found = {name: harm(rows[name]) if name in rows else frozenset() for name in label}
    failed = {kind: [name for name in label if label[name] == kind] for kind in accepted}
    hits = {kind: sum(bool(found[name] & set(accepted[kind])) for name in names) for kind, names in failed.items()}
    healthy = [name for name in label if label[name] == "healthy"]
    documented = [name for names in failed.values() for name in names]
    silent = [name for name in healthy if name not in rows or list(rows[name]["verdict"]) == ["not_judged"]]
    missed = [name for kind, names in failed.items() for name in names if not found[name] & set(accepted[kind])]
    return {
        "failures": {kind: share(hits[kind], len(names)) for kind, names in failed.items()},
        "named": share(sum(hits.values()), len(documented)),
        "any_failure": share(sum(bool(found[name]) for name in documented), len(documented)),
        "false_alarms": share(sum(bool(found[name]) for name in healthy), len(healthy)),
        "healthy_not_judged": share(len(silent), len(healthy)),
        "missed": sorted(missed),
        "alarms": {name: sorted(found[name]) for name in healthy if found[name]},
    }
