"""`predict`: fixed point, stiffness, oscillator, thresholds and noise of one setting, from formulas alone."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.result import Result
from bandit_lab.app.settings.config import PredictSettings, value_of
from bandit_lab.app.terminal.output import Progress
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.lab.predict import build, reduced
from bandit_lab.lab.predict.linear import LinearTheory, linearise
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.report import result_of

LARGEST_BLOCK, LARGEST_LAG = 65_536, 4096
"""Largest refresh interval of the setting itself: of blocks, and of a rule that keeps every policy so long."""


@dataclass(frozen=True)
class PredictPlan:
    """A checked setting. curves: [steps] of each setting that is a schedule, by its name."""

    settings: PredictSettings
    learner: Learner
    interval: float
    curves: dict[str, np.ndarray]

    precision: ClassVar[str] = "float64"


def prepare(settings: PredictSettings, explicit: frozenset[str]) -> PredictPlan:
    """Check every setting. Raises ValueError."""
    build.check_scalars(settings)
    curves = build.scheduled(settings)
    interval = value_of(
        "refresh_interval", "refresh_interval", settings.refresh_interval, build.interval_rule(settings)
    )
    blocks = STALENESS[settings.staleness["name"]]().block_synchronous
    largest = LARGEST_BLOCK if blocks else LARGEST_LAG
    expected = f"at most {largest} with staleness={settings.staleness['name']}"
    _checks.require(interval <= largest, "refresh_interval", expected, settings.refresh_interval)
    learner = build.build_learner(settings, float(interval))
    if settings.stiffness is not None:
        reduced.matrices(settings.stiffness)
        for name in reduced.OF_A_BANDIT:
            given = name in {key.partition(".")[0] for key in explicit}
            _checks.require(not given, name, "no such setting beside stiffness", getattr(settings, name))
    elif reason := build.check_drift(learner, settings.dynamics):
        raise ValueError(f"{reason}; or predict with dynamics=mean_field")
    _checks.require("steps" not in explicit or bool(curves), "steps", "it beside a schedule", settings.steps)
    return PredictPlan(settings, learner, interval, curves)


def compute(plan: PredictPlan, progress: Progress) -> Result:
    """The prediction: on a schedule, of the step with the largest learning rate."""
    settings, learner, peak = plan.settings, plan.learner, None
    if (rates := plan.curves.get("learning_rate")) is not None:
        peak = int(np.argmax(rates))
        settings = replace(settings, learning_rate=float(rates[peak]))
    hyper = Hyper(settings.learning_rate, settings.momentum, plan.interval, settings.kl_weight)
    if settings.stiffness is not None:
        return reduced.result_of(settings, learner, hyper)
    with progress.stage("fixed point and stiffness"):
        linear = linearise(learner, settings.dynamics, hyper.kl_weight)
        if linear.policy is None:
            linear = replace(linear, reason=_no_fixed_point(linear))
    with progress.stage("thresholds"):
        point = OperatingPoint(settings, learner, hyper, linear)
        return result_of(point, peak)


def _no_fixed_point(linear: LinearTheory) -> str:
    """Why the policy runs to a vertex, and the KL weight that would hold it."""
    reason = linear.reason or "no interior fixed point"
    if linear.critical_kl_weight is not None:
        return f"{reason}; one exists from kl_weight = {linear.critical_kl_weight:.6g}"
    return f"{reason}; any kl_weight > 0 may have one" if linear.kl_weight == 0 else reason
