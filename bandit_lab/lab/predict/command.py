"""`predict`: fixed point, stiffness, oscillator, thresholds and noise of one setting, from formulas alone."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.document import Document
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.app.settings.grid import value_of
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.bandits import has_clock
from bandit_lab.grpo import Hyper, Learner, learner_at
from bandit_lab.lab.predict import build
from bandit_lab.lab.predict.branch import PLOTS, follow
from bandit_lab.lab.predict.linear import LinearTheory, linearise
from bandit_lab.lab.predict.margin import at_step, smallest_margin
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.report import document_of

LARGEST = {"lag": 512}
LARGEST_BLOCK = 65_536
"""Largest refresh interval of the setting itself: a lag makes a matrix of that size, a block that many products."""


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
    if settings.plot is not None:
        _checks.choice("plot", settings.plot, PLOTS)
        _checks.require(not curves, "plot", "null where the learning rate or KL weight is a schedule", settings.plot)
    interval = value_of(
        "refresh_interval", "refresh_interval", settings.refresh_interval, build.interval_rule(settings)
    )
    largest = LARGEST.get(settings.staleness["name"], LARGEST_BLOCK)
    expected = f"at most {largest} with staleness={settings.staleness['name']}"
    _checks.require(interval <= largest, "refresh_interval", expected, settings.refresh_interval)
    learner = build.build_learner(settings, float(interval))
    if reason := build.check_drift(learner, settings.dynamics):
        raise ValueError(f"{reason}; or predict with dynamics=mean_field")
    moves = bool(curves) or has_clock(learner.bandit)
    _checks.require(
        "steps" not in explicit or moves, "steps", "it beside a schedule or a bandit with a clock", settings.steps
    )
    still = settings.plot is None or not has_clock(learner.bandit)
    _checks.require(still, "plot", "null where the bandit has a clock", settings.plot)
    return PredictPlan(settings, learner, interval, curves)


def compute(plan: PredictPlan, progress: Progress) -> Document:
    """The prediction as a document: on a schedule or a clock, of the step where it comes nearest to its threshold."""
    settings, learner, margin = plan.settings, plan.learner, None
    if plan.curves or has_clock(learner.bandit):
        with progress.stage("margin along the run"):
            margin = smallest_margin(settings, learner, plan.interval, plan.curves)
        settings, learner = at_step(settings, plan.curves, margin.step), learner_at(learner, margin.step)
    hyper = Hyper(settings.learning_rate, settings.momentum, plan.interval, settings.kl_weight)
    with progress.stage("fixed point and stiffness"):
        linear = linearise(learner, settings, settings.dynamics, hyper.kl_weight)
        if linear.policy is None:
            linear = replace(linear, reason=_no_fixed_point(linear))
    with progress.stage("thresholds"):
        point = OperatingPoint(settings, learner, hyper, linear)
        if settings.plot is None:
            return document_of(point, margin)
    with progress.stage("branches"):
        return document_of(point, followed=follow(point))


def _no_fixed_point(linear: LinearTheory) -> str:
    """Why the policy runs to a vertex, and the KL weight that would hold it."""
    reason = linear.reason or "no interior fixed point"
    if linear.critical_kl_weight is not None:
        return f"{reason}; one exists from kl_weight = {linear.critical_kl_weight:.6g}"
    return f"{reason}; any kl_weight > 0 may have one" if linear.kl_weight == 0 else reason
