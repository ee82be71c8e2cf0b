"""What `fit` computes for one run: the laws, the forecast, the reading of the oscillator, the verdict."""

from dataclasses import dataclass

import numpy as np

from bandit_lab.curves import Curve
from bandit_lab.curves.diagnose import DiagnoseSettings, Diagnosis, diagnose
from bandit_lab.curves.fit import CurveFit, LawFit, fit_curve
from bandit_lab.curves.forecast import FEWEST, Forecast, ForecastSettings, Outlook, outlook
from bandit_lab.curves.reading import Reading, effective_stiffness
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.logs.gather import Log
from bandit_lab.theory import as_convention


@dataclass(frozen=True)
class Ahead:
    """A forecast from the first `points`: the target steps [m], what the laws say, and the mean that came (or None)."""

    points: int
    horizon: float
    target: np.ndarray
    outlook: Outlook | None
    forecast: Forecast
    forecast_90: Forecast
    actual: float | None

    @property
    def refused(self) -> str:
        """Why there is no forecast, or nothing."""
        return self.forecast_90.refused


@dataclass(frozen=True)
class Fitted:
    """Everything about one run that could be fitted."""

    log: Log
    curve: Curve
    fit: CurveFit
    ahead: Ahead
    reading: Reading | None
    reading_reason: str
    diagnosis: Diagnosis | None

    @property
    def best(self) -> LawFit:
        """The law with the smallest AICc."""
        return self.fit.best


def work(log: Log, settings: FitSettings) -> Fitted:
    """Fit one run that has a curve."""
    assert log.curve is not None
    curve = log.curve
    fit = fit_curve(curve, tuple(settings.models), settings.level)
    reading, reason = _reading(log, curve, fit, settings)
    verdict = None
    if settings.report:
        verdict = diagnose(curve, DiagnoseSettings(seed=settings.seed), log.group_size, log.refresh_interval)
    return Fitted(log, curve, fit, look_ahead(curve, settings), reading, reason, verdict)


def look_ahead(curve: Curve, settings: FitSettings) -> Ahead:
    """The forecast of one run from the share of its points that the settings name."""
    points = round(settings.from_fraction * curve.step.size)
    horizon, target = _target(curve, points, settings.horizon)
    chosen = ForecastSettings(level=settings.level)
    if points < FEWEST:
        nothing = Forecast(np.nan, np.nan, np.nan, f"{points} points seen, fewer than {FEWEST}")
        return Ahead(points, horizon, target, None, nothing, nothing, None)
    seen = outlook(curve.step[:points], curve.reward[:points], target, tuple(settings.models))
    scale = (curve.scale.low, curve.scale.high) if curve.scale.given else None
    came = (curve.step >= target.min() - 1e-9) & (curve.step <= target.max() + 1e-9)
    known = bool(came.any()) and curve.step[-1] >= target.max() - 1e-9
    actual = float(curve.reward[came].mean()) if known else None
    made = seen.forecast(chosen, scale)
    return Ahead(points, horizon, target, seen, made, seen.forecast(ForecastSettings(), scale), actual)


def _target(curve: Curve, points: int, horizon: float | None) -> tuple[float, np.ndarray]:
    """(horizon, target steps): a tenth of the run's points, ending `horizon` steps behind the last point seen."""
    width = max(1, round(0.1 * curve.step.size))
    last = float(curve.step[max(points, 1) - 1])
    if horizon is None and points + width <= curve.step.size:
        return float(curve.step[-1]) - last, curve.step[-width:]
    every = curve.log_every
    horizon = 0.5 * (last - float(curve.step[0])) if horizon is None else horizon
    steps = last + max(horizon, every) - every * np.arange(width)[::-1]
    return max(horizon, every), steps[steps > last + 1e-9]


def _reading(log: Log, curve: Curve, fit: CurveFit, settings: FitSettings) -> tuple[Reading | None, str]:
    """(reading, why there is none) of the chosen law, or else of the oscillator's fit."""
    if log.learning_rate is None or settings.momentum is None:
        missing = [
            name
            for name, value in (("learning_rate", log.learning_rate), ("momentum", settings.momentum))
            if value is None
        ]
        return None, f"needs {' and '.join(missing)} of the trainer"
    with_delay = [law for law in (fit.best.law, "oscillator", "single_exponential") if law in fit.laws]
    law = next((fit.laws[name] for name in with_delay if "delay" in fit.laws[name].parameters), None)
    if law is None:
        return None, "no law with a delay was fitted"
    interval = log.refresh_interval or 1.0
    if curve.step_unit != "optimiser step" and log.refresh_interval is None:
        return (
            None,
            f"the log counts steps as {curve.step_unit}: give refresh_interval, and step_unit if unknown",
        )
    per_step = interval if curve.step_unit == "rollout cycle" else 1.0
    delay = law.parameters["delay"]
    return effective_stiffness(
        delay.value * per_step,
        (delay.low * per_step, delay.high * per_step),
        log.learning_rate,
        settings.momentum,
        interval,
        as_convention(settings.convention),
    ), ""
