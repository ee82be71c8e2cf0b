"""`predict`: fixed point, stiffness, oscillator, thresholds and noise of one setting, from formulas alone."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bandit_lab import _checks
from bandit_lab.app.progress import Progress
from bandit_lab.app.result import Result, Table, Value, eigenvalues
from bandit_lab.app.settings.config import PredictSettings, value_of
from bandit_lab.app.settings.names import FORMS
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.lab.predict import build, reduced
from bandit_lab.lab.predict.fixed_point import NO_NOISE, LinearTheory, linearise
from bandit_lab.lab.predict.point import OperatingPoint
from bandit_lab.lab.predict.statements import (
    EXACT,
    LEADING,
    LINEAR,
    QUANTITIES,
    Line,
    Quantity,
    evaluate,
    nested,
    notes,
    rate_lines,
)
from bandit_lab.lab.predict.verdict import amount, brief, ranges, verdict
from bandit_lab.loop import RateCrossing, spectrum

LARGEST_BLOCK, LARGEST_LAG = 65_536, 4096
"""Largest refresh interval of the setting itself: of blocks, and of a rule that keeps every policy so long."""
BIFURCATIONS = {
    "flip": "flip: a real multiplier passes -1",
    "neimark_sacker": "complex pair leaves the unit circle (Neimark-Sacker)",
}
STIFFNESS = "reward / logit^2"


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


def result_of(point: OperatingPoint, peak: int | None = None) -> Result:
    """The verdict in words, the table, and everything of `summary.json`. A terminal gets some lines for the table,
    unless all is asked for. peak: the step of a schedule that `point` is of, that of its largest learning rate."""
    settings, exists = point.settings, point.linear.policy is not None
    values, texts = (evaluate(point), notes(point)) if exists else ({}, [])
    judgement = verdict(point, values, "" if peak is None else _along(point, peak))
    groups = [settings.bandit, settings.advantage, settings.estimator, settings.staleness]
    groups += [settings.sampler, settings.correction] if point.sampler else []
    names = (group["name"] for group in groups)
    form = FORMS.get(convention := point.learner.optimizer.convention, convention)
    lines = [*_fixed_point(point), *_oscillator(point), *_thresholds(point), *_margin(point, peak), *_at_rest(point)]
    stated = [Line(q.key, values[q.key], q.name, q.unit, q.status, 5) for q in QUANTITIES if exists]
    table = Table("predictions", [line.row() for line in [*lines, *stated] if line.name and line.shown() != "-"])
    everything: list[str | Table] = [table, *_missing(point), *texts]
    about = f"{', '.join(names)}; drift at {point.linear.drift}; momentum {settings.momentum:g}: {form}"
    content = {"verdict": judgement} | nested(lines)
    if exists:
        content |= {"statements": [_stated(one, values[one.key]) for one in QUANTITIES], "notes": texts}
    if settings.verbose:
        return Result("Prediction", content, (judgement, about, *everything))
    return Result("Prediction", content, (judgement, about, *brief(point, values, texts)), everything)


def _stated(quantity: Quantity, value: Value) -> dict[str, Any]:
    reason = {"reason": value.reason} if value.reason else {}
    about = {"unit": quantity.unit, "status": quantity.status, "meaning": quantity.meaning}
    return {"key": quantity.key, "name": quantity.name, "value": value.value} | reason | about


def _fixed_point(point: OperatingPoint) -> list[Line]:
    linear = point.linear
    if linear.policy is None:
        nothing = Value.absent(linear.reason or "no fixed point")
        keys = ("fixed_point.policy", "fixed_point.policies", "fixed_point.expected_reward", "stiffness",
                "stiffness_spectrum", "stiffness_fresh", "stiffness_stale", "bifurcation")  # fmt: skip
        return [
            Line("drift", point.linear.drift),
            *(Line(key, nothing) for key in keys),
            Line("critical_kl_weight", linear.critical_kl_weight),
        ]
    assert linear.policies is not None
    several = f" at the first of {len(linear.policies)} prompts" if len(linear.policies) > 1 else ""
    fresh, stale = (eigenvalues(spectrum(part)) for part in linear.parts)
    source = "closed form" if linear.closed_form else "automatic differentiation of the drift"
    felt = "  felt at the policy that acted"
    return [
        Line("drift", point.linear.drift),
        Line("fixed_point.policy", linear.policy, f"fixed point: policy{several}", "", EXACT),
        Line("fixed_point.policies", linear.policies),
        Line("fixed_point.expected_reward", linear.expected_reward, "  expected reward", "reward", EXACT, 6),
        *([] if linear.note is None else [Line("fixed_point.note", linear.note)]),
        Line("stiffness", linear.largest, "stiffness, largest", STIFFNESS, EXACT, 6),
        Line("stiffness_source", source),
        Line("stiffness_spectrum", eigenvalues(linear.spectrum), "  spectrum", STIFFNESS, EXACT),
        Line("stiffness_fresh", fresh, "  felt at the current policy", STIFFNESS, EXACT),
        Line("stiffness_stale", stale, felt, STIFFNESS, EXACT),
    ]


def _oscillator(point: OperatingPoint) -> list[Line]:
    reason, lag_lines, of = point.linear.unsupported_reason(), [], "the lag N"
    if reason is None:
        mass, damping, stiffness = map(Value, point.loop.oscillator(point.hyper.learning_rate, point.loop.lag))
        lag_lines = [Line("oscillator.lag", point.loop.lag)]
        of = "the mean age as lag" if point.loop.given_ages else of
    else:
        mass = damping = Value.absent(reason)
        stiffness = mass if point.linear.policy is None else Value(point.linear.largest)
    return [
        Line("oscillator.mass", mass, "oscillator: mass", "steps / learning rate", LEADING),
        Line("oscillator.damping", damping, f"  damping, with {of}", "1 / learning rate", LEADING),
        Line("oscillator.stiffness", stiffness),
        Line("oscillator.convention", point.learner.optimizer.convention),
        *lag_lines,
    ]


def _thresholds(point: OperatingPoint) -> list[Line]:
    interval, intervals = "thresholds.refresh_interval", point.intervals
    islands = point.first_unstable if intervals.islands is None else intervals.islands
    lines = [
        Line("thresholds.convention", point.learner.optimizer.convention),
        *rate_lines(point),
        Line(f"{interval}.leading_order", point.interval_law, "refresh interval: leading-order law", "steps", LEADING),
        Line(f"{interval}.exact", point.first_unstable, "  first unstable", "steps", LINEAR),
        Line(f"{interval}.islands", islands, "  unstable ranges", "steps", LINEAR, text=lambda _: ranges(intervals)),
        *([] if intervals.searched is None else [Line(f"{interval}.searched_up_to", intervals.searched)]),
    ]
    if point.linear.policy is not None:
        kind = point.exact.kind or Value.absent(point.exact.reason or "no threshold")
        named = "  kind of bifurcation"
        lines.insert(3, Line("bifurcation", kind, named, "", LINEAR, text=lambda one: BIFURCATIONS.get(one, one)))
    return lines


def _smallest(point: OperatingPoint) -> Value:
    """Threshold over learning rate."""
    exact = point.exact
    return Value.of(exact.value and exact.value / point.hyper.learning_rate, exact.reason or "")


def _margin(point: OperatingPoint, peak: int | None) -> list[Line]:
    if peak is None:
        return []
    return [
        Line("margin.smallest", _smallest(point), "along the schedule: smallest margin", "threshold / learning rate",
             LINEAR, 6),
        Line("margin.step", peak, "  at step", "steps"),
        Line("margin.steps", point.settings.steps),
    ]  # fmt: skip


def _along(point: OperatingPoint, peak: int) -> str:
    """Which step of a run the rest of the verdict is about."""
    place, smallest = f"this is step {peak} of {point.settings.steps:,}", _smallest(point)
    if smallest.value is None:
        return f"{place}; no margin is known along the run ({smallest.reason})"
    return f"{place}, where the schedule comes nearest to the threshold (margin {amount(smallest.value)})"


def _at_rest(point: OperatingPoint) -> list[Line]:
    settings, steps = point.settings, None if point.regime is None else point.steps
    reward, logit = _stationary(point)
    place = f"eta = {settings.learning_rate:g}, mu = {settings.momentum:g}, N = {settings.refresh_interval}"
    per = "per step" if steps in (None, 1) else f"per {steps} steps"
    return [
        Line("regime", point.regime or point.radius, f"at {place}: regime", "", LINEAR),
        Line("spectral_radius", point.radius, "  largest multiplier", per, LINEAR, 6),
        *([] if steps is None else [Line("spectral_radius_steps", steps)]),
        Line("stationary_std.expected_reward", reward, "  stationary std: expected reward", "reward", LINEAR),
        Line("stationary_std.logit", logit, "  stationary std: log-odds of the best arm", "nats", LINEAR),
        *([] if point.group_size or point.linear.policy is None else [Line("stationary_std.note", NO_NOISE)]),
    ]


def _stationary(point: OperatingPoint) -> tuple[Value, Value]:
    """Standard deviations over a stationary run at this group size: of the reward, of the best arm's log-odds."""
    if point.linear.policy is None:
        return point.radius, point.radius
    return (Value(0.0), Value(0.0)) if point.group_size is None else point.stationary


def _missing(point: OperatingPoint) -> list[str]:
    """Lines that say why something is missing from the table, each reason once."""
    linear = point.linear
    if linear.policy is None:
        return [f"No prediction at {point.linear.drift}: {linear.reason}."]
    named: dict[str, Value | RateCrossing] = {
        "exact threshold": point.exact,
        "onset of oscillation": point.onset,
        "leading-order law": point.law,
        "unstable refresh interval": point.first_unstable,
        "stationary std": _stationary(point)[0],
    }
    reasons: dict[str, list[str]] = {}
    for name, one in named.items():
        if one.value is None:
            reasons.setdefault(str(one.reason), []).append(name)
    notes = [] if linear.note is None else [f"Note: {linear.note}."]
    return [*(f"No {', '.join(names)}: {reason}." for reason, names in reasons.items()), *notes]
