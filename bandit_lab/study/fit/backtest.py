"""`fit backtest=true`: every long run forecast from its first parts and scored against what came."""

from typing import Any

import numpy as np

from bandit_lab.curves.backtest import BASELINES, Cut, cut, leave_family_out, score
from bandit_lab.curves.paired import compare
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.fit.work import Fitted
from bandit_lab.study.folder.store import with_reasons
from bandit_lab.study.terminal.progress import ProgressCallback

QUANTILES = (0.25, 0.5, 0.75, 0.9)


def backtest(fitted: list[Fitted], settings: FitSettings, advance: ProgressCallback) -> dict[str, Any]:
    """{`scores`: one row per fraction, `runs`: one row per run and fraction, `left_out`: runs that are too short}.

    The drift of the intervals is chosen on the runs of all other families. Relative errors are divided by the range of
    the points seen (2nd to 98th percentile), so that runs with different reward scales weigh the same.
    """
    long = [one for one in fitted if one.fit.n_points >= settings.backtest_points]
    left_out = [one.log.name for one in fitted if one.fit.n_points < settings.backtest_points]
    scores, runs = [], []
    for place, fraction in enumerate(settings.fractions):
        cuts = []
        for done, one in enumerate(long):
            cuts.append(cut(one.log.name, one.curve.step, one.curve.reward, fraction, one.log.family))
            advance(place * len(long) + done + 1, len(long) * len(settings.fractions))
        if cuts:
            tests = leave_family_out(cuts)
            scores.append({"fraction": fraction, **_scored(cuts, tests)})
            runs += [_row(one, test, drift) for one, (test, drift) in zip(cuts, tests, strict=True)]
    return {"scores": scores, "runs": runs, "left_out": left_out}


def _scored(cuts: list[Cut], tests: list[Any]) -> dict[str, Any]:
    pairs = [(one.outlook, test) for one, (test, _) in zip(cuts, tests, strict=True)]
    kept = [(seen.seen, test) for seen, test in pairs if seen is not None and not test.forecast.refused]
    refused = [test.name for test, _ in tests if test.forecast.refused]
    if not kept:
        return {"runs": len(cuts), "refused": len(refused), "refusals": refused}
    found = score([test for test, _ in tests])
    relative = np.array([abs(test.error) / seen for seen, test in kept])
    others = {name: np.array([abs(test.baselines[name]) / seen for seen, test in kept]) for name in BASELINES}
    made = {
        "runs": found.runs,
        "refused": found.refused,
        "refusals": refused,
        "covered": found.covered,
        "coverage_interval": list(found.coverage_interval),
        "median_error": found.median_error,
        "baseline_errors": dict(found.baseline_errors),
        "median_relative_error": float(np.median(relative)),
        "relative_baseline_errors": {name: float(np.nanmedian(values)) for name, values in others.items()},
        "mean_relative_error": float(np.mean(relative)),
        "mean_relative_baseline_errors": {name: float(np.nanmean(values)) for name, values in others.items()},
        "relative_error_quantiles": dict(zip(("25", "50", "75", "90"), np.quantile(relative, QUANTILES), strict=True)),
        "interval_score": float(np.mean([test.interval_score / seen for seen, test in kept])),
        "drifts": sorted({drift for _, drift in tests}),
    }
    return made | ({"compared": _compared(relative, others)} if len(kept) > 1 else {})


def _compared(relative: np.ndarray, others: dict[str, np.ndarray]) -> dict[str, Any]:
    found = compare(relative, others)
    smaller = {name: dict(zip(("smaller", "differ", "p"), row, strict=True)) for name, row in found.smaller.items()}
    return {"ratio": found.ratio, "ratio_interval": list(found.ratio_interval), "smaller": smaller}


def _row(one: Cut, test: Any, drift: float) -> dict[str, Any]:
    made = test.forecast
    about = {"log": one.name, "family": one.family, "fraction": one.fraction, "drift": drift, "actual": one.actual}
    keys = ("predicted", "interval_90", "error", "covered")
    values = (made.predicted, [made.low, made.high], test.error, test.covered)
    if made.refused:
        return about | with_reasons(dict.fromkeys(keys), dict.fromkeys(keys, f"refused: {made.refused}"))
    return about | dict(zip(keys, values, strict=True)) | {"baseline_errors": dict(test.baselines)}
