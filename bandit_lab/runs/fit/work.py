"""What `fit` computes for one run: the laws, the forecast, the reading of the oscillator, the verdict."""

from dataclasses import dataclass

import numpy as np

from bandit_lab.app.document import Value
from bandit_lab.runs.diagnose import DiagnoseSettings, Diagnosis, diagnose
from bandit_lab.runs.fit import CurveFit, LawFit, fit_curve
from bandit_lab.runs.fit.quality import LITTLE
from bandit_lab.runs.fit.reading import StiffnessReading, effective_stiffness
from bandit_lab.runs.forecast.forecast import FEWEST, CurveProperty, Forecast, ForecastSettings, predict_curve
from bandit_lab.runs.logs.gather import Log
from bandit_lab.runs.logs.settings import FitSettings
from bandit_lab.runs.read import Curve
from bandit_lab.theory.conventions import OF_OPTIMIZER


@dataclass(frozen=True)
class RunForecast:
    """A forecast from the first `points`, for the target steps [m]: at the settings' level, at 0.9, and what came."""

    points: int
    horizon: float
    target: np.ndarray
    forecast: Forecast
    forecast_90: Forecast
    actual: Value
    plateau: Value
    step_95: Value

    @property
    def refused(self) -> str:
        """Why there is no forecast, or nothing."""
        return self.forecast_90.refused and f"refused: {self.forecast_90.refused}"

    @property
    def error(self) -> Value:
        """What was forecast minus what came."""
        came = self.actual.value
        return self.actual if came is None else Value.of(self.forecast_90.predicted - came, "no forecast", "reward")


@dataclass(frozen=True)
class Fitted:
    """Everything about one run that could be fitted. `reading` is a text where there is none: why."""

    fit: CurveFit
    prediction: RunForecast
    reading: StiffnessReading | str
    diagnosis: Diagnosis | None

    @property
    def best(self) -> LawFit:
        """The law with the smallest AICc."""
        return self.fit.best

    @property
    def judged(self) -> Diagnosis:
        """The diagnosis of a run that was judged."""
        assert self.diagnosis is not None
        return self.diagnosis

    @property
    def status(self) -> str:
        """`ok`, what the curve cannot tell, or that no law describes it."""
        share = self.best.r_squared_explainable
        if not share < LITTLE:
            return self.best.status
        weak = f"weak: the law explains {100 * max(share, 0):.0f} % of what changes slowly in this curve"
        return weak if self.best.status == "ok" else f"{weak}; {self.best.status}"


def work(log: Log, settings: FitSettings) -> Fitted:
    """Fit one run that has a curve."""
    assert log.curve is not None
    curve = log.curve
    fit = fit_curve(curve, tuple(settings.models), settings.level)
    verdict = None
    if settings.report:
        verdict = diagnose(curve, DiagnoseSettings(seed=settings.seed), log.group_size, log.refresh_interval)
    return Fitted(fit, predicted_end(curve, settings), _reading(log, curve, fit, settings), verdict)


def predicted_end(curve: Curve, settings: FitSettings) -> RunForecast:
    """The forecast of one run from the share of its points that the settings name."""
    points = round(settings.from_fraction * curve.step.size)
    horizon, target = _target(curve, points, settings.horizon)
    unknown = Value.absent("the log ends before the target steps", "reward")
    if points < FEWEST:
        nothing = Forecast(np.nan, np.nan, np.nan, f"{points} points seen, fewer than {FEWEST}")
        none = Value.absent(nothing.refused)
        return RunForecast(points, horizon, target, nothing, nothing, unknown, none, none)
    seen = predict_curve(curve.step[:points], curve.reward[:points], target, tuple(settings.models))
    came = (curve.step >= target.min() - 1e-9) & (curve.step <= target.max() + 1e-9)
    known = bool(came.any()) and curve.step[-1] >= target.max() - 1e-9
    actual = Value.of(curve.reward[came].mean(), "not finite", "reward") if known else unknown
    made, at_90 = (seen.forecast(ForecastSettings(level=level), curve.known_range) for level in (settings.level, 0.9))
    plateau, step_95 = _reach(seen.plateau(), "reward"), _reach(seen.step_95(), "steps")
    return RunForecast(points, horizon, target, made, at_90, actual, plateau, step_95)


def _reach(reach: CurveProperty, unit: str) -> Value:
    why = reach.refused or "the points seen do not bound it"
    return Value.of(reach.value, why, unit).within(reach.low, reach.high, 0.9, why)


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


def _reading(log: Log, curve: Curve, fit: CurveFit, settings: FitSettings) -> StiffnessReading | str:
    """The reading of the chosen law, or else of the oscillator's fit; or why there is none."""
    if log.learning_rate is None or settings.momentum is None:
        known = {"learning_rate": log.learning_rate, "momentum": settings.momentum}
        return f"needs {' and '.join(name for name, value in known.items() if value is None)} of the trainer"
    with_delay = [law for law in (fit.best.law, "oscillator", "single_exponential") if law in fit.laws]
    law = next((fit.laws[name] for name in with_delay if "delay" in fit.laws[name].parameters), None)
    if law is None:
        return "no law with a delay was fitted"
    interval = log.refresh_interval or 1.0
    if curve.step_unit != "optimiser step" and log.refresh_interval is None:
        return f"the log counts steps as {curve.step_unit}: give refresh_interval, and step_unit if unknown"
    per_step = interval if curve.step_unit == "rollout cycle" else 1.0
    delay = law.parameters["delay"]
    ends = delay.low * per_step, delay.high * per_step
    convention = OF_OPTIMIZER[settings.optimizer["name"]]
    return effective_stiffness(delay.value * per_step, ends, log.learning_rate, settings.momentum, interval, convention)
