"""Forecasts judged on what came after: coverage, refusals, and errors against baselines that cost nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from bandit_lab import _checks
from bandit_lab.curves.fit import engine
from bandit_lab.curves.fit.results import FEWEST_POINTS
from bandit_lab.curves.fit.shapes import SHAPES
from bandit_lab.curves.forecast import Forecast, ForecastSettings, forecast
from bandit_lab.curves.record import Floats

BASELINES = ("last_value", "single_exponential", "sigmoid")


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


def backtest(
    name: str, step: Floats, reward: Floats, fraction: float, settings: ForecastSettings | None = None
) -> Backtest:
    """Forecast the mean of the last tenth of a run [n] from its first `fraction`. Raises ValueError if they overlap."""
    _checks.require(0 < fraction < 0.9, "fraction", "a number between 0 and 0.9", fraction)
    count = round(fraction * len(step))
    tail = max(1, round(0.1 * len(step)))
    _checks.require(count + tail <= len(step) and count >= 2, "fraction", "room for a start and an end", fraction)
    made = forecast(step[:count], reward[:count], step[-tail:], settings)
    actual = float(np.mean(reward[-tail:]))
    return Backtest(name, fraction, made, actual, _baselines(step[:count], reward[:count], step[-tail:], actual))


def _baselines(step: Floats, reward: Floats, target: Floats, actual: float) -> dict[str, float]:
    """Errors [reward] of the last level, and of one law alone."""
    found = {"last_value": float(np.mean(reward[-max(1, len(reward) // 10) :])) - actual}
    for law in BASELINES[1:]:
        if len(step) < FEWEST_POINTS:
            found[law] = np.nan
            continue
        picture = engine.fit(SHAPES[law], step - step[0], reward[None])
        growth = SHAPES[law].growth(target - step[0], picture.theta[:, None, :]) - 1
        found[law] = float(picture.plateau[0] + picture.amplitude[0] * growth.mean()) - actual
    return found


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


def choose_drift(
    runs: Sequence[tuple[str, Floats, Floats]],
    fraction: float = 0.5,
    candidates: Sequence[float] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6),
    settings: ForecastSettings | None = None,
) -> float:
    """The smallest drift whose 90 % intervals cover at least 90 % of these runs (name, step, reward).

    To be called with the runs of *other* families than the one that is judged. Raises ValueError without runs.
    """
    _checks.require(len(runs) > 0, "runs", "at least one run", 0)
    base = settings or ForecastSettings()
    for drift in sorted(candidates):
        tests = [backtest(name, step, reward, fraction, replace(base, drift=drift)) for name, step, reward in runs]
        kept = [test for test in tests if np.isfinite(test.forecast.predicted)]
        if kept and np.mean([test.covered for test in kept]) >= 0.9:
            return drift
    return max(candidates)
