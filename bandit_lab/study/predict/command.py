"""`predict`: fixed point, stiffness, oscillator, thresholds and noise of one setting, from formulas alone."""

from dataclasses import dataclass, replace

from bandit_lab import _checks
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.simulate import drift_name
from bandit_lab.study import build
from bandit_lab.study.document import Document
from bandit_lab.study.document.write import perform
from bandit_lab.study.predict.prediction import predict
from bandit_lab.study.predict.report import document_of
from bandit_lab.study.settings.config import PredictSettings
from bandit_lab.study.settings.grid import value_of
from bandit_lab.study.terminal.progress import Progress
from bandit_lab.study.wiring import Linear, linearise

LARGEST = {"lag": 512}
LARGEST_BLOCK = 65_536
"""Largest refresh interval of the setting itself: a lag makes a matrix of that size, a block that many products."""


@dataclass(frozen=True)
class PredictPlan:
    """A checked setting."""

    settings: PredictSettings
    learner: Learner
    hyper: Hyper

    @property
    def precision(self) -> str | None:
        """As given: everything here is computed in float64."""
        return self.settings.precision


def prepare(settings: PredictSettings, explicit: frozenset[str]) -> PredictPlan:
    """Check every setting. Raises ValueError."""
    build.check_scalars(settings)
    interval = value_of(
        "refresh_interval", "refresh_interval", settings.refresh_interval, build.interval_rule(settings)
    )
    largest = LARGEST.get(settings.staleness["name"], LARGEST_BLOCK)
    expected = f"at most {largest} with staleness={settings.staleness['name']}"
    _checks.require(interval <= largest, "refresh_interval", expected, settings.refresh_interval)
    learner = build.build_learner(settings, float(interval))
    if reason := build.check_drift(learner, settings.dynamics):
        raise ValueError(f"{reason}; or predict with dynamics=mean_field")
    hyper = Hyper(settings.learning_rate, settings.momentum, interval, settings.kl_weight)
    return PredictPlan(settings, learner, hyper)


def compute(plan: PredictPlan, progress: Progress) -> Document:
    """The prediction as a document."""
    settings, hyper = plan.settings, plan.hyper
    with progress.stage("fixed point and stiffness"):
        linear = linearise(plan.learner, settings, settings.dynamics, hyper.kl_weight)
        if linear.policy is None:
            linear = replace(linear, reason=_no_fixed_point(linear))
    with progress.stage("thresholds"):
        return document_of(predict(settings, plan.learner, hyper, drift_name(plan.learner, settings.dynamics), linear))


execute = perform("predict", compute)


def _no_fixed_point(linear: Linear) -> str:
    """Why the policy runs to a vertex, and the KL weight that would hold it."""
    reason = linear.reason or "no interior fixed point"
    if linear.critical_kl_weight is not None:
        return f"{reason}; one exists from kl_weight = {linear.critical_kl_weight:.6g}"
    return f"{reason}; any kl_weight > 0 may have one" if linear.kl_weight == 0 else reason
