"""`predict stiffness=...`: the oscillator, the threshold and the margin of a run whose curvature is known."""

import math
from typing import Any

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.result import Result, Table, Value
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.lab.predict.fixed_point import LinearTheory
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.statements import LEADING, LINEAR, Line, nested, rate_lines
from bandit_lab.lab.predict.verdict import amount

UNIT = "reward / parameter^2"
OF_A_BANDIT = (
    "bandit",
    "advantage",
    "estimator",
    "kl_estimator",
    "sampler",
    "correction",
    "kl_weight",
    "entropy_weight",
)
"""Settings that a run has no use for where its stiffness is known."""


def matrices(given: Any) -> tuple[np.ndarray, np.ndarray]:
    """(fresh, stale) [1, 1] of a number, which is stale, or of [fresh, stale]. Raises ValueError for anything else."""
    expected = "a number > 0, or [fresh, stale] with a sum > 0"
    several = isinstance(given, list | tuple | np.ndarray)
    numbers = [given] if not several else list(given)
    finite = all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in numbers)
    _checks.require(finite and len(numbers) == 1 + several and sum(numbers) > 0, "stiffness", expected, given)
    fresh, stale = numbers if several else (0.0, numbers[0])
    return np.array([[float(fresh)]]), np.array([[float(stale)]])


def result_of(settings: PredictSettings, learner: Learner, hyper: Hyper) -> Result:
    """Mass, damping, stiffness, regime, thresholds and margin at a learning rate.

    Raises ValueError for a stiffness that is none, and for an optimiser that is not linear near rest.
    """
    fresh, stale = matrices(settings.stiffness)
    linear = LinearTheory(learner, settings.dynamics, hyper.kl_weight, np.ones((1, 2)) / 2, 0.5, fresh, stale)
    if reason := linear.unsupported_reason():
        raise ValueError(f"stiffness: expected a rule and an optimiser with a linear theory, got {reason}")
    point, rate = OperatingPoint(settings, learner, hyper, linear), hyper.learning_rate
    (mass, damping, stiffness), exact = point.loop.oscillator(rate, point.loop.lag), point.exact
    margin = Value.of(exact.value and exact.value / rate, exact.reason or "")
    spread = point.loop.spread(rate, np.array([[1 / learner.group_size / learner.prompts]]), settings.batch_reuse)
    std = Value.of(None if spread.average is None else math.sqrt(spread.average[0, 0]), str(spread.reason))
    regime = point.regime or point.radius.reason
    lines = [
        Line("oscillator.mass", mass, "mass", "steps / learning rate", LEADING),
        Line("oscillator.damping", damping, "damping", "1 / learning rate", LEADING),
        Line("oscillator.stiffness", stiffness, "stiffness", UNIT, LINEAR),
        Line("oscillator.lag", point.loop.lag, "  lag", "steps", LINEAR),
        Line("regime", regime, "regime", "", LINEAR),
        *rate_lines(point),
        Line(
            "thresholds.refresh_interval.exact",
            point.first_unstable,
            "refresh interval: first unstable",
            "steps",
            LINEAR,
        ),
        Line("margin", margin, "margin", "threshold / learning rate", LINEAR),
        Line("stationary_std", std, "std over a long run, per std of one answer's gradient", "", LINEAR),
    ]
    verdict = _verdict(regime, margin)
    table = Table("predictions", [line.row() for line in lines])
    return Result("Prediction", {"verdict": verdict} | nested(lines), (verdict, table))


def _verdict(regime: str, margin: Value) -> str:
    if margin.value is None:
        return f"{regime}: {margin.reason}"
    side = "below" if margin.value > 1 else "above"
    times = amount(max(margin.value, 1 / margin.value)) if margin.value else ""
    return f"{regime}: the learning rate is {times} times {side} the threshold"
