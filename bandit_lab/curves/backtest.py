"""Forecasts judged on what came after: coverage, refusals, and errors against baselines that cost nothing.

How the point forecast was chosen. Both rounds were written down before they were run (commits 22de097, d019d89); known
before the first were, at 50 % of the real runs, the errors of the half-and-half mixture in use, of every law, of the
laws' Akaike mean and of the last level. Candidates, the simplest first:

    weight  mean of the laws (Akaike weights) and the last level, the latter with weight w in 0, 0.1, ..., 1
    median  the same w, but the median of the mixture (drift 0.1) in place of its mean
    apart   level and gain apart: (1 - a) laws' level now + a last level + s laws' gain from now on, a and s in
            0, 0.25, ..., 1 (a = 1 - s is `weight`)
    trend   `weight`, with a share v in 0, 0.25, ..., 1 for exponential smoothing with a damped trend (Gardner and
            McKenzie, Management Science 31, 1985) fitted to the one-step errors

Loss: absolute error over the range seen, mean over the runs of a family, over families, and over cuts; a refused
forecast counts like any other; a simpler candidate is taken if it comes within 2 %.

First round: w, a, s, v of least loss over the other families (runs of 60 points or more at 30, 50, 70 %, loss at most
1, and 150 simulated runs of conf/benchmark/training.yaml as one more family). Loss on the family left out: weight
0.162, median 0.162, apart 0.171, trend 0.155; in use 0.153; last level 0.147.
Second round: the same, chosen on runs that are never scored (fewer than 60 points, other families, at 50 and 70 %, loss
at most 0.25; and the simulated ones). Loss there: weight and median 0.139, apart 0.128 (a = 1, s = 0.5: taken), trend
0.127. Then on the runs of 60 points or more, none left out as refused, median errors at

            weight  median  apart   trend   in use  last    exponential  sigmoid
    30 %    0.131   0.138   0.131   0.130   0.120   0.138   0.191        0.165
    50 %    0.062   0.064   0.075   0.061   0.069   0.065   0.062        0.058
    70 %    0.033   0.031   0.037   0.036   0.034   0.031   0.048        0.037

Neither round chose anything better than what was in use, which therefore stays: half laws, half last level. Nor does it
beat the best of three baselines in hindsight in the median (`compare` says how little so few runs can tell). All this
with the fits of that time, whose descent stopped earlier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from bandit_lab import _checks
from bandit_lab.curves.forecast import FEWEST, CurvePrediction, Forecast, ForecastSettings, predict_curve
from bandit_lab.curves.record import Floats

BASELINES = ("last_value", "single_exponential", "sigmoid")
DRIFTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6)


@dataclass(frozen=True)
class Backtest:
    """One run cut at `fraction`: the forecast of the mean of its last tenth, what it was, and the baselines' errors."""

    name: str
    fraction: float
    forecast: Forecast
    actual: float
    baselines: Mapping[str, float]

    @property
    def error(self) -> float:
        """Predicted less actual [reward]."""
        return self.forecast.predicted - self.actual

    @property
    def covered(self) -> bool:
        """Whether the 90 % interval holds the actual value."""
        return bool(self.forecast.low <= self.actual <= self.forecast.high)

    @property
    def interval_score(self) -> float:
        """Width of the 90 % interval and 20 times what it misses by [reward] (Gneiting and Raftery 2007, eq. 43)."""
        made = self.forecast
        missed = max(made.low - self.actual, 0.0) + max(self.actual - made.high, 0.0)
        return made.high - made.low + 20 * missed


@dataclass(frozen=True)
class Cut:
    """One run cut at `fraction`: what the laws saw in its first part (None: too short), and what came after.

    `actual` is the mean of the last tenth, `last_value` that of the last tenth of the first part. `family` groups
    runs of one origin.
    """

    name: str
    family: str
    fraction: float
    points: int
    prediction: CurvePrediction | None
    actual: float
    last_value: float

    def judge(self, settings: ForecastSettings) -> Backtest:
        """The forecast with these settings, against the baselines."""
        errors = {"last_value": self.last_value - self.actual}
        if self.prediction is None:
            made = Forecast(np.nan, np.nan, np.nan, f"{self.points} points, fewer than {FEWEST}")
            errors |= dict.fromkeys(BASELINES[1:], np.nan)
        else:
            made = self.prediction.forecast(settings)
            errors |= {law: self.prediction.parts[law].centre - self.actual for law in BASELINES[1:]}
        return Backtest(self.name, self.fraction, made, self.actual, errors)


def cut(name: str, step: Floats, reward: Floats, fraction: float, family: str = "") -> Cut:
    """Fit the first `fraction` of a run [n] and look at its last tenth. Raises ValueError if they overlap."""
    _checks.require(0 < fraction < 0.9, "fraction", "a number between 0 and 0.9", fraction)
    count = round(fraction * len(step))
    tail = max(1, round(0.1 * len(step)))
    _checks.require(count + tail <= len(step) and count >= 2, "fraction", "room for a start and an end", fraction)
    seen = reward[:count]
    ahead = predict_curve(step[:count], seen, step[-tail:]) if count >= FEWEST else None
    last = float(np.mean(seen[-max(1, count // 10) :]))
    return Cut(name, family, fraction, count, ahead, float(np.mean(reward[-tail:])), last)


def backtest(
    name: str, step: Floats, reward: Floats, fraction: float, settings: ForecastSettings | None = None
) -> Backtest:
    """Forecast the mean of the last tenth of a run [n] from its first `fraction`. Raises ValueError if they overlap."""
    return cut(name, step, reward, fraction).judge(settings or ForecastSettings())


@dataclass(frozen=True)
class Score:
    """Coverage with its 95 % binomial (Clopper-Pearson) interval, share refused, median absolute errors."""

    runs: int
    refused: int
    covered: int
    coverage_interval: tuple[float, float]
    median_error: float
    baseline_errors: Mapping[str, float]


def score(tests: Sequence[Backtest]) -> Score:
    """How a set of back-tests went; errors and coverage over the forecasts that were not refused.

    Raises ValueError if all were refused.
    """
    kept = [test for test in tests if not test.forecast.refused]
    _checks.require(bool(kept), "backtest", "a run that is not refused", len(tests))
    covered = sum(test.covered for test in kept)
    exact = stats.binomtest(covered, len(kept)).proportion_ci(0.95, "exact")
    errors = {name: float(np.nanmedian([abs(t.baselines[name]) for t in kept])) for name in BASELINES}
    median = float(np.median([abs(t.error) for t in kept]))
    return Score(len(tests), len(tests) - len(kept), covered, (float(exact.low), float(exact.high)), median, errors)


def choose_drift(tests: Mapping[float, Sequence[Backtest]]) -> float:
    """The smallest drift whose 90 % intervals cover at least 90 % of these back-tests, else the largest tried.

    `tests` holds the same cuts judged with each drift, of *other* families than the one that is judged by it. Raises
    ValueError without any.
    """
    _checks.require(any(tests.values()), "runs", "at least one run", 0)
    for drift in sorted(tests):
        made = [test for test in tests[drift] if np.isfinite(test.forecast.predicted)]
        if made and np.mean([test.covered for test in made]) >= 0.9:
            return drift
    return max(tests)


def leave_family_out(
    cuts: Sequence[Cut], base: ForecastSettings | None = None, candidates: Sequence[float] = DRIFTS
) -> list[tuple[Backtest, float]]:
    """(back-test, drift) of every cut, its drift chosen on the cuts of all other families.

    With one family only there is nothing to choose on, and `base` is used as it is.
    """
    base = base or ForecastSettings()
    judged = {drift: [one.judge(replace(base, drift=drift)) for one in cuts] for drift in {*candidates, base.drift}}
    chosen: dict[str, float] = {}
    for family in {one.family for one in cuts}:
        others = [place for place, one in enumerate(cuts) if one.family != family]
        tried = {drift: [judged[drift][place] for place in others] for drift in candidates}
        chosen[family] = choose_drift(tried) if others else base.drift
    return [(judged[chosen[one.family]][place], chosen[one.family]) for place, one in enumerate(cuts)]


@dataclass(frozen=True)
class Paired:
    """`ratio` of the median error to that of the best other method, and the 95 % of it that resampled runs give;
    `smaller` maps each other method to (runs in which the error is smaller, runs that differ, p of the sign test)."""

    ratio: float
    ratio_interval: tuple[float, float]
    smaller: Mapping[str, tuple[int, int, float]]


def compare(errors: Floats, others: Mapping[str, Floats], resamples: int = 2000, seed: int = 0) -> Paired:
    """Compare absolute `errors` [n] with the `others`' [n]; runs where any is not finite are left out.

    Raises ValueError for fewer than two runs or nothing to compare with.
    """
    _checks.require(bool(others), "others", "at least one method", 0)
    table = np.stack([np.asarray(values, float) for values in (errors, *others.values())])
    table = table[:, np.isfinite(table).all(axis=0)]
    _checks.require(table.shape[1] >= 2, "errors", "at least two runs", table.shape[1])
    drawn = np.random.default_rng(seed).integers(0, table.shape[1], (resamples, table.shape[1]))
    low, high = np.quantile(_ratio(table[:, drawn]), (0.025, 0.975))
    mine, smaller = table[0], {}
    for name, their in zip(others, table[1:], strict=True):
        better, differ = int((mine < their).sum()), int((mine != their).sum())
        chance = float(stats.binomtest(better, differ).pvalue) if differ else 1.0
        smaller[name] = (better, differ, chance)
    return Paired(float(_ratio(table)), (float(low), float(high)), smaller)


def _ratio(table: Floats) -> Floats:
    """Median of the first row over the smallest median of the others, [methods, ..., n] -> [...]."""
    medians = np.median(table, axis=-1)
    return np.asarray(medians[0] / np.maximum(medians[1:].min(axis=0), 1e-300))
