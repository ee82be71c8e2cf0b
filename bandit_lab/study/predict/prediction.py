"""What is predicted at one setting, as numbers: thresholds, unstable refresh intervals, multipliers, statements."""

import bisect
from dataclasses import dataclass, replace

import numpy as np

from bandit_lab import theory
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.study.document import Value
from bandit_lab.study.predict.statement import OperatingPoint
from bandit_lab.study.predict.statements import Statement, evaluate, notes
from bandit_lab.study.settings.config import PredictSettings
from bandit_lab.study.wiring import Linear, RateThreshold, noise_covariance, signal_of, special, weighs
from bandit_lab.theory.stability import repels

SEARCHED = {"refresh": 1024, "pipeline": 1024, "lag": 128}
"""Largest refresh interval that the search for unstable ones looks at, whatever the setting's own interval is."""
SEARCHED_CLOSED = 1024
"""The same for `lag` where the whole stiffness is stale and the threshold of each lag is a root, not a scan."""
REPELS = "the fixed point repels"


@dataclass(frozen=True)
class Intervals:
    """Refresh intervals at which stability is lost at this learning rate, in steps.

    islands: unstable ranges [first, last] up to `searched`, or None where they were not searched (see `first`).
    """

    law: Value
    first: Value
    islands: list[list[int]] | None = None
    searched: int | None = None


@dataclass(frozen=True)
class Prediction:
    """Everything that `predict` says of one setting. `point` is None where there is no fixed point.

    law, exact, onset: learning rates. radius: of the largest multiplier over `steps` updates. regime: `overdamped`,
    `oscillatory` or `unstable`, None where `radius` is.
    """

    settings: PredictSettings
    hyper: Hyper
    optimizer: str
    drift: str
    linear: Linear
    law: RateThreshold
    exact: RateThreshold
    onset: RateThreshold
    intervals: Intervals
    radius: Value
    steps: int | None = None
    regime: str | None = None
    point: OperatingPoint | None = None
    statements: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()


def predict(settings: PredictSettings, learner: Learner, hyper: Hyper, drift: str, linear: Linear) -> Prediction:
    """Every number from the linear loop and the closed forms. linear: with the reason where there is no fixed point."""
    rate, momentum, interval, _ = hyper
    law, exact = linear.law(interval, momentum), linear.threshold(interval, momentum)
    onset, reason = linear.onset(interval, momentum), linear.unsupported_reason()
    nothing = Value.absent(reason or "no linear theory")
    name, none = learner.optimizer.name, Intervals(nothing, nothing)
    found = Prediction(settings, hyper, name, drift, linear, law, exact, onset, none, nothing)
    if linear.policy is None:
        return found
    setting = _operating_point(settings, learner, hyper, linear)
    said, words = tuple(evaluate(setting)), tuple(notes(setting, exact.value))
    found = replace(found, point=setting, statements=said, notes=words)
    if reason is not None:
        return found
    loop = linear.loop(momentum)
    radius = float(theory.spectral_radius(loop, rate, interval))
    cycles = any(row.quantity.key == "period" and row.value.value is not None for row in said)
    return replace(
        found,
        intervals=_intervals(linear, hyper),
        radius=Value.of(radius, "the multipliers are not finite"),
        steps=loop.steps_per_map(interval),
        regime=_regime(loop, radius, rate, onset.value, cycles),
    )


def _operating_point(settings: PredictSettings, learner: Learner, hyper: Hyper, linear: Linear) -> OperatingPoint:
    """What the table of statements is evaluated on."""
    infinite_group, bandit = settings.dynamics == "mean_field", learner.bandit
    noise, reason = (None, None) if infinite_group else noise_covariance(learner, settings, np.asarray(linear.policy))
    return OperatingPoint(
        linear,
        hyper,
        None if infinite_group else learner.group_size,
        np.exp(np.asarray(bandit.reference_log_policy)[0]),
        np.exp(np.asarray(bandit.log_policy(bandit.initial_parameters))[0]),
        np.asarray(bandit.law.means)[0],
        np.asarray(bandit.true_means)[0],
        signal_of(learner, settings, settings.dynamics),
        noise,
        reason,
        settings.batch_reuse,
        learner.prompts,
        weighs(learner),
        special(learner),
    )


def _regime(loop: theory.LinearLoop, radius: float, learning_rate: float, onset: float | None, cycles: bool) -> str:
    """By the largest multiplier's modulus, and by whether a mode swings.

    cycles: whether the dominant mode does from step to step. Over a block of even length its multiplier is positive
    all the same where it flips at every step, so that the onset does not tell.
    """
    if repels(loop) or radius >= 1:
        return "unstable"
    return "oscillatory" if cycles or (onset is not None and learning_rate > onset) else "overdamped"


def _intervals(linear: Linear, hyper: Hyper) -> Intervals:
    at_one = linear.law(1, hyper.momentum)
    law = Value.of(None if at_one.value is None else at_one.value / hyper.learning_rate, at_one.reason or REPELS)
    if linear.model not in SEARCHED:
        return Intervals(law, Value.absent(f"not searched for staleness={linear.model}"))
    runs: list[tuple[int, int]]
    if linear.model == "lag" and linear.wholly_stale:
        maximum, runs = SEARCHED_CLOSED, unstable_lags(linear, hyper, SEARCHED_CLOSED)
    else:
        maximum = SEARCHED[linear.model]
        runs = theory.islands(linear.loop(hyper.momentum), hyper.learning_rate, maximum)
    first = Value.of(runs[0][0] if runs else None, f"stable at every refresh interval up to {maximum}", "steps")
    return Intervals(law, first, [list(run) for run in runs], maximum)


def unstable_lags(linear: Linear, hyper: Hyper, maximum: int) -> list[tuple[int, int]]:
    """The unstable lags 0..maximum as at most one range, by bisection; for a stiffness that is wholly stale.

    Derived here: on the unit circle kappa rises with the angle, and a longer lag reaches the phase of a crossing at a
    smaller one, so that the threshold falls with the lag. Roots only leave the circle as kappa grows, and the stiffest
    mode leaves first: a lag is unstable where its threshold lies at or below eta times the largest stiffness.
    """
    kappa, convention = hyper.learning_rate * linear.largest, theory.as_convention(linear.convention)

    def unstable(lag: int) -> bool:
        return theory.exact("lag", lag, hyper.momentum, convention).kappa <= kappa

    first = bisect.bisect_left(range(maximum + 1), True, key=unstable)
    return [(first, maximum)] if first <= maximum else []
