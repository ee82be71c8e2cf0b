"""What `fit` computes for one run: the laws, and the reading of the oscillator."""

import math
from dataclasses import dataclass
from typing import Any

from grpo_clinic.fitting import CurveFit, FittedNumber, LawFit, fit_curve
from grpo_clinic.fitting.reading import StiffnessReading, effective_stiffness
from grpo_clinic.fitting.results import LITTLE
from grpo_clinic.law import OF_OPTIMIZER
from grpo_clinic.logs.gather import Log
from grpo_clinic.logs.settings import FitSettings
from grpo_clinic.readers import Curve
from grpo_clinic.report import plain


@dataclass(frozen=True)
class Fitted:
    """Everything about one run that could be fitted. `reading` is a text where there is none: why."""

    name: str
    curve: Curve
    fit: CurveFit
    reading: StiffnessReading | str

    @property
    def best(self) -> LawFit:
        """The law with the smallest AICc."""
        return self.fit.best

    @property
    def status(self) -> str:
        """`ok`, what the curve cannot tell, or that no law describes it."""
        share = self.best.r_squared_explainable
        if not share < LITTLE:
            return self.best.status
        weak = f"weak: the law explains {100 * max(share, 0):.0f} % of what changes slowly in this curve"
        return weak if self.best.status == "ok" else f"{weak}; {self.best.status}"

    def text(self, level: float, whole: bool = False) -> str:
        """The law with the smallest AICc, its numbers with their intervals; `whole`: every law, what was read."""
        best, share = self.best, self.best.r_squared_explainable
        slow = "" if math.isnan(share) else f" ({share:.2f} of the variance beyond noise)"
        lines = [
            f"{self.name}, {self.curve.step.size} rewards: {best.law.replace('_', ' ')}, R2 = {best.r_squared:.2f}"
            f"{slow}. {self.status}.",
            *(f"  {name:14} {_number(one, level)}" for name, one in best.parameters.items()),
        ]
        if isinstance(reading := self.reading, StiffnessReading):
            lines.append(
                f"Effective stiffness {reading.stiffness:.3g} [{reading.low:.3g}, {reading.high:.3g}] reward per "
                f"logit^2; momentum would give a damping ratio of {reading.damping_ratio_of_momentum:.3g}."
            )
        if whole:
            laws, smallest = self.fit.laws, min(one.aicc for one in self.fit.laws.values())
            lines += [
                f"  {law:20} AICc +{laws[law].aicc - smallest:.3g}: {laws[law].status}" for law in self.fit.ranked
            ]
            lines.append(f"Read: {'; '.join(self.curve.recognised)}.")
        return "\n".join(lines)

    def row(self) -> dict[str, Any]:
        """The same as numbers; an end that the curve does not bound is null."""
        best, reading = self.best, self.reading
        numbers: dict[str, Any] = plain(
            {
                "log": self.name,
                "path": self.curve.source,
                "n_points": self.curve.step.size,
                "model": best.law,
                "parameters": {name: vars(one) for name, one in best.parameters.items()},
                "r_squared": best.r_squared,
                "r_squared_explainable": best.r_squared_explainable,
                "aicc": best.aicc,
                "models": {law: {"aicc": one.aicc, "status": one.status} for law, one in self.fit.laws.items()},
                "effective_stiffness": reading if isinstance(reading, str) else reading.stiffness,
                "status": self.status,
            }
        )
        return numbers


def work(log: Log, settings: FitSettings) -> Fitted:
    """Fit one run that has a curve."""
    assert log.curve is not None
    fit = fit_curve(log.curve.step, log.curve.reward, settings.models, settings.level)
    return Fitted(log.name, log.curve, fit, _reading(log, log.curve, fit, settings))


def _reading(log: Log, curve: Curve, fit: CurveFit, settings: FitSettings) -> StiffnessReading | str:
    """The reading of the chosen law, or else of the oscillator's fit; or why there is none."""
    if log.learning_rate is None or settings.momentum is None:
        needed = {"learning_rate": log.learning_rate, "momentum": settings.momentum}
        return f"needs {' and '.join(name for name, value in needed.items() if value is None)} of the trainer"
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
    convention = OF_OPTIMIZER[settings.optimizer]
    return effective_stiffness(delay.value * per_step, ends, log.learning_rate, settings.momentum, interval, convention)


def _number(one: FittedNumber, level: float) -> str:
    ends = "not bounded" if not one.bounded else f"{100 * level:g} % [{one.low:.4g}, {one.high:.4g}]"
    return f"{one.value:.4g} {ends} {'' if one.unit == '1' else one.unit}".rstrip()
