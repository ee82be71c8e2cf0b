"""Every long run forecast by `fit` from its first parts, and scored against what came.

    python experiments/grading/forecasts.py my_runs/             # logs or folders of logs
    python experiments/grading/forecasts.py logs_index=logs/index.csv 'fractions=[0.5]' fewest=60

Scores of the public runs are in `figures/real_forecasts.json` (`experiments/grading/public_forecasts.py`).
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.document import ABSENT, Block, Column, Document, On, Table, Value, Values
from bandit_lab.app.document.value import interval_text, number
from bandit_lab.app.settings.schema import RUN, setting
from bandit_lab.app.terminal.progress import Progress, ProgressCallback
from bandit_lab.runs.logs.findings import paragraphs
from bandit_lab.runs.logs.gather import Log, gather, missing_curves, reading_options
from bandit_lab.runs.logs.settings import LogSettings
from experiments.grading.backtest import (
    BASELINES,
    MEDIAN,
    SIMPLE,
    Backtest,
    Cut,
    Paired,
    Score,
    compare,
    cut,
    leave_family_out,
    score,
)
from experiments.shared import script

QUANTILES = {"25": 0.25, "50": 0.5, "75": 0.75, "90": 0.9}
Tested = tuple[Cut, Backtest, float]
"""A run cut at some fraction, its forecast and what came, and the drift that was chosen on the other families."""


@dataclass
class ForecastsSettings(LogSettings):
    """Settings of this script: which logs, how they are read, and where they are cut."""

    fractions: list[float] = setting([0.3, 0.5, 0.7], "", "shares of the points that a forecast sees", RUN)
    fewest: int = setting(60, "points", "shorter runs are left out", RUN)
    seed: int = setting(0, "", "recorded; nothing here is random", RUN)


@dataclass(frozen=True)
class KeptScores:
    """Scores over the runs that were not refused. Errors [runs] over the range of the points seen, of the forecast
    (`relative`, `interval_score`) and of the baselines (`others`)."""

    score: Score
    relative: np.ndarray
    others: dict[str, np.ndarray]
    interval_score: np.ndarray
    compared: Paired | None


@dataclass(frozen=True)
class Scored:
    """All runs at one fraction; `kept` is None where every one was refused."""

    fraction: float
    tests: list[Tested]
    kept: KeptScores | None

    @property
    def refusals(self) -> list[str]:
        """The runs whose forecast was refused."""
        return [test.name for _, test, _ in self.tests if test.forecast.refused]


def prepare(settings: ForecastsSettings, explicit: frozenset[str]) -> script.ScriptPlan:
    """Check every setting and read the logs. Raises ValueError if none of them holds a curve."""
    _checks.integer("fewest", settings.fewest, 20)
    fractions = _checks.numbers("fractions", settings.fractions)
    _checks.require(bool(fractions), "fractions", "at least one share", settings.fractions)
    for place, fraction in enumerate(fractions):
        _checks.require(0 < fraction <= 0.85, f"fractions[{place}]", "a number in (0, 0.85]", fraction)
    reading_options(settings)
    with Progress(settings.quiet).stage("reading") as advance:
        return script.ScriptPlan(settings, gather(settings, advance), "float64")


def compute(plan: script.ScriptPlan, progress: Progress) -> Document:
    """Cut, forecast and score every log that has a curve."""
    with progress.stage("back-test") as advance:
        found = blocks(plan.given, plan.settings.fractions, plan.settings.fewest, advance)
    return Document("Forecasts", {"backtest": found}, incomplete=missing_curves(plan.given))


def blocks(logs: Sequence[Log], fractions: Sequence[float], fewest: int, advance: ProgressCallback) -> list[Block]:
    """Scores by fraction, a row per run and fraction, and the runs that are too short.

    The drift of the intervals is chosen on the runs of all other families. Relative errors are divided by the range of
    the points seen (2nd to 98th percentile), so that runs with different reward scales weigh the same.
    """
    read = [(log, log.curve) for log in logs if log.curve is not None]
    long = [(log, curve) for log, curve in read if curve.step.size >= fewest]
    left_out = [log.name for log, curve in read if curve.step.size < fewest]
    scores = []
    for place, fraction in enumerate(fractions):
        cuts = []
        for done, (log, curve) in enumerate(long):
            cuts.append(cut(log.name, curve.step, curve.reward, fraction, log.family, curve.known_range))
            advance(place * len(long) + done + 1, len(long) * len(fractions))
        if cuts:
            tests = [(one, test, drift) for one, (test, drift) in zip(cuts, leave_family_out(cuts), strict=True)]
            scores.append(Scored(fraction, tests, _kept(tests)))
    return [
        _score_table(scores),
        _run_table([test for one in scores for test in one.tests]),
        Values({"left_out": left_out}, on=On.JSON),
        *paragraphs(_lines(scores, left_out), On.TERMINAL),
    ]


def _kept(tests: Sequence[Tested]) -> KeptScores | None:
    kept = [
        (one.prediction.seen, test)
        for one, test, _ in tests
        if one.prediction is not None and not test.forecast.refused
    ]
    if not kept:
        return None
    relative = np.array([abs(test.error) / seen for seen, test in kept])
    others = {name: np.array([abs(test.baselines[name]) / seen for seen, test in kept]) for name in BASELINES}
    interval_score = np.array([test.interval_score / seen for seen, test in kept])
    compared = compare(relative, others) if len(kept) > 1 else None
    return KeptScores(score([test for _, test, _ in tests]), relative, others, interval_score, compared)


def _score_table(scores: list[Scored]) -> Table[Scored]:
    def kept(key: str, read: Callable[[KeptScores], Any], title: str = "", text: Any = None) -> Column[Scored]:
        word = None if text is None else lambda one: text(one.kept)
        on = On.JSON | On.TERMINAL if title else On.JSON
        return Column(key, title, lambda one: ABSENT if one.kept is None else read(one.kept), text=word, on=on)

    def error(name: str) -> Column[Scored]:
        text = lambda it: _both(it.score.baseline_errors[name], float(np.nanmedian(it.others[name])))  # noqa: E731
        shown = kept(name, lambda it: it.others[name], name.replace("_", " "), text)
        return Column(name, shown.title, shown.read, text=shown.text, on=On.TERMINAL)

    columns: list[Column[Scored]] = [
        Column("fraction", "first part", lambda one: one.fraction, text=lambda one: f"{100 * one.fraction:g} %"),
        Column("runs", "runs", lambda one: len(one.tests)),
        Column("refused", "refused", lambda one: len(one.refusals)),
        Column("refusals", "", lambda one: one.refusals, on=On.JSON),
        kept("covered", lambda it: it.score.covered, "covered by 90 %",
             lambda it: f"{it.score.covered} of {it.relative.size}"),
        kept("coverage_interval", lambda it: list(it.score.coverage_interval), "95 % binomial",
             lambda it: interval_text(it.score.coverage_interval)),
        kept("median_error", lambda it: it.score.median_error, "median |error|",
             lambda it: _both(it.score.median_error, float(np.median(it.relative)))),
        kept("baseline_errors", lambda it: dict(it.score.baseline_errors)),
        *(error(name) for name in (SIMPLE[0], MEDIAN)),
        kept("median_relative_error", lambda it: float(np.median(it.relative))),
        kept("relative_baseline_errors", lambda it: _each(np.nanmedian, it.others)),
        kept("mean_relative_error", lambda it: float(np.mean(it.relative))),
        kept("mean_relative_baseline_errors", lambda it: _each(np.nanmean, it.others)),
        kept("relative_error_quantiles", lambda it: {q: np.quantile(it.relative, p) for q, p in QUANTILES.items()}),
        kept("interval_score", lambda it: float(np.mean(it.interval_score))),
        Column("drifts", "", lambda one: ABSENT if one.kept is None else sorted({d for _, _, d in one.tests}),
                       on=On.JSON),
        kept("compared", lambda it: ABSENT if it.compared is None else _comparison(it.compared)),
    ]  # fmt: skip
    title = "Back-test: the mean of the last tenth of the points, from the first part"
    return Table(scores, columns, "scores", title, On.JSON | On.TERMINAL)


def _each(mean: Callable[[np.ndarray], Any], others: dict[str, np.ndarray]) -> dict[str, float]:
    return {name: float(mean(values)) for name, values in others.items()}


def _both(error: float, relative: float) -> str:
    return f"{number(error, 3)} ({number(relative, 2)})"


def _comparison(found: Paired) -> dict[str, Any]:
    smaller = {name: dict(zip(("smaller", "differ", "p"), row, strict=True)) for name, row in found.smaller.items()}
    return {"ratio": found.ratio, "ratio_interval": list(found.ratio_interval), "smaller": smaller}


def _run_table(tests: list[Tested]) -> Table[Tested]:
    def made(key: str, read: Callable[[Backtest], Any]) -> Column[Tested]:
        def known(it: Tested) -> Any:
            refused = it[1].forecast.refused
            return Value.absent(f"refused: {refused}") if refused else read(it[1])

        return Column(key, key, known)

    return Table(tests, [
        Column("log", "log", lambda it: it[0].name),
        Column("family", "family", lambda it: it[0].family),
        Column("fraction", "first part", lambda it: it[0].fraction),
        Column("drift", "drift", lambda it: it[2]),
        Column("actual", "actual", lambda it: it[0].actual),
        made("predicted", lambda test: test.forecast.predicted),
        made("interval_90", lambda test: [test.forecast.low, test.forecast.high]),
        made("error", lambda test: test.error),
        made("covered", lambda test: test.covered),
        Column("baseline_errors", "", lambda it: ABSENT if it[1].forecast.refused else dict(it[1].baselines)),
    ], "runs", on=On.JSON)  # fmt: skip


def _lines(scores: list[Scored], left_out: list[str]) -> list[str]:
    """What the numbers of the table are, and the runs that were refused or left out."""
    lines = ["|error| in units of the reward (in brackets: of the range seen), over the runs that were not refused."]
    for one in scores:
        if one.refusals:
            lines.append(f"Refused from {100 * one.fraction:g} %: {', '.join(one.refusals)}")
        if one.kept is not None and one.kept.compared is not None:
            lines.append(_compared(one.fraction, one.kept, one.kept.compared))
    return lines + ([f"Too short for the back-test: {len(left_out)} runs"] if left_out else [])


def _compared(fraction: float, kept: KeptScores, found: Paired) -> str:
    """Whether the errors differ from the baselines' by more than the choice of runs."""
    low, high = found.ratio_interval
    smaller = [
        f"{name.replace('_', ' ')} in {count} of {differ} (sign test p = {p:.2f})"
        for name, (count, differ, p) in found.smaller.items()
    ]
    return (
        f"From {100 * fraction:g} %: median error over the range seen is {found.ratio:.2f} times the best "
        f"baseline's (resampled runs: 95 % within {low:.2f} to {high:.2f}); error smaller than {', '.join(smaller)}; "
        f"interval score {number(float(np.mean(kept.interval_score)), 2)} of the range seen"
    )


def main(arguments: Sequence[str]) -> int:
    """Run the script. Returns the exit code."""
    return script.run(arguments, "forecasts", __doc__, ForecastsSettings, prepare, compute, computes=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
