"""What is said of a fit: the first screen, the rest, and a row of JSON."""

from typing import Any

from grpo_clinic.fitting.reading import StiffnessReading
from grpo_clinic.fitting.results import FittedNumber
from grpo_clinic.fitting.work import Fitted
from grpo_clinic.report import finite


def fit_text(found: Fitted, level: float, whole: bool) -> str:
    """The law with the smallest AICc, its numbers with their intervals; `whole`: every law, what was read."""
    best = found.best
    lines = [
        f"{found.name}, {found.curve.step.size} rewards: {best.law.replace('_', ' ')}, R2 = {best.r_squared:.2f} "
        f"({best.r_squared_explainable:.2f} of the variance beyond noise). {found.status}.",
        *(f"  {name:14} {_number(one, level)}" for name, one in best.parameters.items()),
    ]
    if isinstance(reading := found.reading, StiffnessReading):
        lines.append(
            f"Effective stiffness {reading.stiffness:.3g} [{reading.low:.3g}, {reading.high:.3g}] reward per logit^2; "
            f"momentum would give a damping ratio of {reading.damping_ratio_of_momentum:.3g}."
        )
    if whole:
        laws, smallest = found.fit.laws, min(one.aicc for one in found.fit.laws.values())
        lines += [f"  {law:20} AICc +{laws[law].aicc - smallest:.3g}: {laws[law].status}" for law in found.fit.ranked]
        lines.append(f"Read: {'; '.join(found.curve.recognised)}.")
    return "\n".join(lines)


def _number(one: FittedNumber, level: float) -> str:
    ends = "not bounded" if not one.bounded else f"{100 * level:g} % [{one.low:.4g}, {one.high:.4g}]"
    return f"{one.value:.4g} {ends} {'' if one.unit == '1' else one.unit}".rstrip()


def fit_row(found: Fitted) -> dict[str, Any]:
    """The same as numbers; an end that the curve does not bound is null."""
    best, reading = found.best, found.reading
    return {
        "log": found.name,
        "path": found.curve.source,
        "n_points": int(found.curve.step.size),
        "model": best.law,
        "parameters": {
            name: {
                "value": finite(one.value),
                "low": finite(one.low),
                "high": finite(one.high),
                "standard_error": finite(one.standard_error),
                "unit": one.unit,
            }
            for name, one in best.parameters.items()
        },
        "r_squared": finite(best.r_squared),
        "r_squared_explainable": finite(best.r_squared_explainable),
        "aicc": finite(best.aicc),
        "models": {law: {"aicc": finite(one.aicc), "status": one.status} for law, one in found.fit.laws.items()},
        "effective_stiffness": reading if isinstance(reading, str) else finite(reading.stiffness),
        "status": found.status,
    }
