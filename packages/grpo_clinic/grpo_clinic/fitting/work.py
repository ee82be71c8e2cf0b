"""What `fit` computes for one run: the laws, and the reading of the oscillator."""

from dataclasses import dataclass

from grpo_clinic.fitting import CurveFit, LawFit, fit_curve
from grpo_clinic.fitting.reading import StiffnessReading, effective_stiffness
from grpo_clinic.fitting.results import LITTLE
from grpo_clinic.law import OF_OPTIMIZER
from grpo_clinic.logs.gather import Log
from grpo_clinic.logs.settings import FitSettings
from grpo_clinic.readers import Curve


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


def work(log: Log, settings: FitSettings) -> Fitted:
    """Fit one run that has a curve."""
    assert log.curve is not None
    fit = fit_curve(log.curve.step, log.curve.reward, settings.models, settings.level)
    return Fitted(log.name, log.curve, fit, _reading(log, log.curve, fit, settings))


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
    convention = OF_OPTIMIZER[settings.optimizer]
    return effective_stiffness(delay.value * per_step, ends, log.learning_rate, settings.momentum, interval, convention)
