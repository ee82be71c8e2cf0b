"""Forecasts of public runs, scored on the half that nothing was chosen on: `conf/benchmark/real_runs.yaml`.

    python experiments/grading/public_forecasts.py           # the development half: thresholds may be chosen on it
    python experiments/grading/public_forecasts.py --both    # the scoring half too, into figures/real_forecasts.json

BANDIT_LAB_LOGS names the folder of the runs. No log is copied: the file holds counts and the names of runs.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bandit_lab.lab.sick_runs.plant import load
from bandit_lab.runs.forecast.forecast import ForecastSettings
from bandit_lab.runs.logs.gather import gather
from bandit_lab.runs.logs.settings import LogSettings
from bandit_lab.runs.read import Curve
from experiments.grading.backtest import BASELINES, Backtest, Cut, cut
from experiments.grading.forecasts import ForecastsSettings

STORED = Path(__file__).parents[2] / "figures" / "real_forecasts.json"
HALVES = ("development", "scoring")
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--both", action="store_true", help="score both halves and write the file")
    asked = parser.parse_args()
    folder, known = os.environ.get("BANDIT_LAB_LOGS"), ForecastsSettings()
    if not folder:
        sys.exit("BANDIT_LAB_LOGS: expected a folder with index.csv and its logs, got nothing")
    logs = gather(LogSettings(logs_index=str(Path(folder) / "index.csv")), lambda done, total: None)
    runs = {log.name: log.curve for log in logs if log.curve is not None}
    found = score_forecasts(runs, known.fewest, known.fractions)
    text = json.dumps(found if asked.both else {HALVES[0]: found[HALVES[0]]}, indent=1)
    print(text)
    if asked.both:
        STORED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
