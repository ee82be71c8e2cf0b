"""Forecasts judged on what came after: coverage, refusals, and errors against baselines that cost nothing.

The baselines are the forecasters that are mixed (`forecasters`), each alone, and the median of their four forecasts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from bandit_lab import _checks
from bandit_lab.runs.forecast.forecast import FEWEST, CurvePrediction, Forecast, ForecastSettings, predict_curve
from bandit_lab.runs.forecast.forecasters import CURVES
from bandit_lab.runs.read.record import Floats

SIMPLE = ("last_value", *CURVES)
MEDIAN = "median_of_simple"
BASELINES = (*SIMPLE, MEDIAN)
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
    runs of one origin; `scale` is the known range of the reward.
    """

    name: str
    family: str
    fraction: float
    points: int
    prediction: CurvePrediction | None
    actual: float
    last_value: float
    scale: tuple[float, float] | None = None

    def judge(self, settings: ForecastSettings) -> Backtest:
        """The forecast with these settings, against the baselines."""
        if self.prediction is None:
            made = Forecast(np.nan, np.nan, np.nan, f"{self.points} points, fewer than {FEWEST}")
            errors = dict.fromkeys(BASELINES, np.nan) | {SIMPLE[0]: self.last_value - self.actual}
        else:
            made = self.prediction.forecast(settings, self.scale)
            simple = [self.last_value, *(self.prediction.parts[name].centre for name in CURVES)]
            values = dict(zip(SIMPLE, simple, strict=True)) | {MEDIAN: float(np.median(simple))}
            errors = {name: value - self.actual for name, value in values.items()}
        return Backtest(self.name, self.fraction, made, self.actual, errors)


def cut(
    name: str,
    step: Floats,
    reward: Floats,
    fraction: float,
    family: str = "",
    scale: tuple[float, float] | None = None,
) -> Cut:
    """Fit the first `fraction` of a run [n] and look at its last tenth. Raises ValueError if they overlap."""
    _checks.require(0 < fraction < 0.9, "fraction", "a number between 0 and 0.9", fraction)
    count = round(fraction * len(step))
    tail = max(1, round(0.1 * len(step)))
    _checks.require(count + tail <= len(step) and count >= 2, "fraction", "room for a start and an end", fraction)
    seen = reward[:count]
    ahead = predict_curve(step[:count], seen, step[-tail:]) if count >= FEWEST else None
    last = float(np.mean(seen[-max(1, count // 10) :]))
    return Cut(name, family, fraction, count, ahead, float(np.mean(reward[-tail:])), last, scale)


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
    exact = scipy.stats.binomtest(covered, len(kept)).proportion_ci(0.95, "exact")
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
        chance = float(scipy.stats.binomtest(better, differ).pvalue) if differ else 1.0
        smaller[name] = (better, differ, chance)
    return Paired(float(_ratio(table)), (float(low), float(high)), smaller)


def _ratio(table: Floats) -> Floats:
    """Median of the first row over the smallest median of the others, [methods, ..., n] -> [...]."""
    medians = np.median(table, axis=-1)
    return np.asarray(medians[0] / np.maximum(medians[1:].min(axis=0), 1e-300))
