"""`summary.json` of `fit`: one row per log, the back-test's scores, and what was refused."""

from typing import Any

import numpy as np

from bandit_lab.curves.fit.results import Estimate, LawFit
from bandit_lab.curves.forecast import Reach
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.fit.work import Ahead, Fitted
from bandit_lab.study.folder.store import with_reasons
from bandit_lab.study.logs.gather import Log

LITTLE = 0.5
"""Share of the explainable variance below which no law is said to describe a curve."""
_EMPTY = ("n_points", "model", "parameters", "r_squared", "r_squared_explainable", "aicc", "forecast")


def row(log: Log, fitted: Fitted | None, settings: FitSettings) -> dict[str, Any]:
    """One log: what was fitted, or nulls with the reason."""
    about: dict[str, Any] = {"log": log.name, "path": log.path}
    if fitted is None:
        nothing = with_reasons(dict.fromkeys(_EMPTY), dict.fromkeys(_EMPTY, log.reason))
        return about | nothing | _known(log) | {"status": f"no curve: {log.reason}"}
    best = fitted.best
    return (
        about
        | {"n_points": fitted.fit.n_points, **_read(fitted), "model": best.law}
        | {"parameters": parameters(best, settings.level)}
        | {"r_squared": best.r_squared}
        | with_reasons(
            {"r_squared_explainable": best.r_squared_explainable},
            {"r_squared_explainable": "noise from point to point is all the variance there is"},
        )
        | {"aicc": best.aicc, "models": {law: _brief(fitted, law) for law in fitted.fit.ranked}}
        | {"forecast": forecast(fitted.ahead, settings)}
        | {"reading": _reading(fitted)}
        | _verdict(fitted)
        | _known(log)
        | {"status": _status(best)}
    )


def _status(best: LawFit) -> str:
    """`ok`, what the curve cannot tell, or that no law describes it."""
    share = best.r_squared_explainable
    if not share < LITTLE:
        return best.status
    weak = f"weak: the law explains {100 * max(share, 0):.0f} % of what changes slowly in this curve"
    return weak if best.status == "ok" else f"{weak}; {best.status}"


def _read(fitted: Fitted) -> dict[str, Any]:
    curve = fitted.curve
    return {
        "format": curve.format,
        "framework": curve.framework,
        "reward_key": curve.reward_series.key,
        "step_unit": curve.step_unit,
        "steps": [float(curve.step[0]), float(curve.step[-1])],
        "reward_scale": {"low": curve.scale.low, "high": curve.scale.high, "given": curve.scale.given},
        "recognised": list(curve.recognised),
        "notes": list(curve.notes),
    }


def _known(log: Log) -> dict[str, Any]:
    return {"outcome": log.outcome} if log.outcome else {}


def interval_name(level: float) -> str:
    """Key of an interval: `interval_90` at 0.9."""
    return f"interval_{100 * level:g}"


def parameters(law: LawFit, level: float) -> dict[str, Any]:
    """Every fitted number with unit, standard error and interval; null with the reason where the curve is silent."""
    return {name: _estimate(estimate, level) for name, estimate in law.parameters.items()}


def _estimate(estimate: Estimate, level: float) -> dict[str, Any]:
    why = "this curve does not bound it"
    return (
        {"value": estimate.value}
        | with_reasons({"standard_error": estimate.standard_error}, {"standard_error": why})
        | ends(estimate.low, estimate.high, interval_name(level))
        | {"unit": estimate.unit}
    )


def ends(low: float, high: float, name: str, reason: str = "an end is null where the curve does not bound it") -> Any:
    """An interval as [low, high], an infinite end as null with the reason."""
    found: dict[str, Any] = {name: [low, high]}
    return found if np.isfinite(low) and np.isfinite(high) else found | {f"{name}_reason": reason}


def _brief(fitted: Fitted, law: str) -> dict[str, Any]:
    one = fitted.fit.laws[law]
    return {
        "aicc": one.aicc,
        "weight": fitted.fit.weights[law],
        "r_squared": one.r_squared,
        "status": one.status,
    }


def forecast(ahead: Ahead, settings: FitSettings) -> dict[str, Any]:
    """The forecast: its value with interval and, where the future is known, its error; null with the reason."""
    made, unknown = ahead.forecast_90, "the log ends before the target steps"
    found: dict[str, Any] = {"from_fraction": settings.from_fraction, "horizon": ahead.horizon}
    found["target_steps"] = [float(ahead.target[0]), float(ahead.target[-1])]
    if ahead.refused:
        keys = ("predicted", "interval_90", "error", "plateau", "step_95")
        return found | with_reasons(dict.fromkeys(keys), dict.fromkeys(keys, f"refused: {ahead.refused}"))
    found |= {"predicted": made.predicted, "interval_90": [made.low, made.high]}
    if settings.level != 0.9:
        found[interval_name(settings.level)] = [ahead.forecast.low, ahead.forecast.high]
    error = None if ahead.actual is None else made.predicted - ahead.actual
    found |= with_reasons({"error": error, "actual": ahead.actual}, {"error": unknown, "actual": unknown})
    assert ahead.outlook is not None
    found["plateau"] = _reach(ahead.outlook.plateau(), "reward")
    found["step_95"] = _reach(ahead.outlook.step_95(), "steps")
    found["weights"] = {law: weight for law, (weight, _) in made.laws.items()}
    return found


def _reach(reach: Reach, unit: str) -> dict[str, Any]:
    value = with_reasons({"value": reach.value}, {"value": reach.refused})
    return value | ends(reach.low, reach.high, "interval_90", reach.refused) | {"unit": unit}


def _reading(fitted: Fitted) -> dict[str, Any]:
    if fitted.reading is None:
        return with_reasons({"effective_stiffness": None}, {"effective_stiffness": fitted.reading_reason})
    found = fitted.reading
    return {
        "effective_stiffness": found.stiffness,
        **ends(found.low, found.high, "interval"),
        "unit": "reward per logit^2",
        "damping_ratio_of_momentum": found.damping_ratio_of_momentum,
    }


def _verdict(fitted: Fitted) -> dict[str, Any]:
    if fitted.diagnosis is None:
        return {}
    found = fitted.diagnosis
    grades = {name: grade for name, (grade, _) in found.severity.items()}
    return {"verdict": list(found.verdict), "severity": grades, "scores": found.scores, "missing": list(found.missing)}
