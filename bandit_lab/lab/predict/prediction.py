"""What is predicted at one setting, as numbers: thresholds, unstable refresh intervals, multipliers, statements."""

import bisect
from dataclasses import dataclass, replace

import numpy as np

from bandit_lab import theory
from bandit_lab.app.document import Value
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper, Learner, OwnLaw
from bandit_lab.lab.predict.linear import (
    LinearTheory,
    RateThreshold,
    linearise,
    noise_covariance,
    said_of_sampler,
    signal_of,
    special,
    two_arms_of,
    weighs,
)
from bandit_lab.lab.predict.statement import Derived, OperatingPoint, Sampling
from bandit_lab.lab.predict.statements import Statement, evaluate, notes
from bandit_lab.measure import FloquetThreshold, floquet, floquet_threshold
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
    `oscillatory` or `unstable`, None where `radius` is. sampler: what draws, in words, if not the policy.
    """

    settings: PredictSettings
    hyper: Hyper
    drift: str
    linear: LinearTheory
    law: RateThreshold
    exact: RateThreshold
    onset: RateThreshold
    intervals: Intervals
    radius: Value
    steps: int | None = None
    regime: str | None = None
    point: OperatingPoint | None = None
    sampler: str | None = None
    statements: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()


def predict(settings: PredictSettings, learner: Learner, hyper: Hyper, drift: str, linear: LinearTheory) -> Prediction:
    """Every number from the linear loop and the closed forms. linear: with the reason where there is no fixed point."""
    rate, momentum, interval, _ = hyper
    law, exact = linear.law(interval, momentum), linear.threshold(interval, momentum)
    onset, reason = linear.onset(interval, momentum), linear.unsupported_reason()
    nothing = Value.absent(reason or "no linear theory")
    none = Intervals(nothing, nothing)
    found = Prediction(settings, hyper, drift, linear, law, exact, onset, none, nothing)
    found = replace(found, sampler=said_of_sampler(learner, settings))
    if linear.policy is None:
        return found
    setting, derived = _operating_point(settings, learner, hyper, linear), None
    if reason is not None and not linear.drawn:
        derived = _derived(learner, hyper, linear)
        setting = replace(setting, derived=derived)
        reason = f"{reason}; {derived.reason}" if derived.reason else reason
        exact = _threshold(derived, reason)
        found = replace(found, exact=exact, radius=Value.absent(reason))
    said, words = tuple(evaluate(setting)), tuple(notes(setting, exact.value))
    found = replace(found, point=setting, statements=said, notes=words)
    cycles = any(row.quantity.key == "period" and row.value.value is not None for row in said)
    if setting.exact_derivatives is not None:
        here = setting.exact_derivatives.here
        regime = "unstable" if here.radius >= 1 else "oscillatory" if cycles else "overdamped"
        seen = Value.of(here.radius, "the multipliers are not finite")
        return replace(found, radius=seen, steps=here.period, regime=regime)
    if reason is not None:
        return found
    loop = linear.loop(momentum)
    radius = float(theory.spectral_radius(loop, rate, interval))
    return replace(
        found,
        intervals=_intervals(linear, hyper),
        radius=Value.of(radius, "the multipliers are not finite"),
        steps=loop.steps_per_map(interval),
        regime=_regime(loop, radius, rate, onset.value, cycles),
    )


def exact_threshold(learner: Learner, hyper: Hyper, linear: LinearTheory) -> RateThreshold:
    """The learning rate at which stability is lost, exactly: from the linear loop, or by differentiating the update."""
    found, reason = linear.threshold(hyper.refresh_interval, hyper.momentum), linear.unsupported_reason()
    if reason is None or linear.drawn or linear.policy is None:
        return found
    derived = _derived(learner, hyper, linear)
    return _threshold(derived, f"{reason}; {derived.reason}" if derived.reason else reason)


def _derived(learner: Learner, hyper: Hyper, linear: LinearTheory) -> Derived:
    """Threshold and multipliers by differentiating the update: for any staleness model and optimiser."""
    _, momentum, interval, weight = hyper
    here = floquet(learner, linear.dynamics, hyper)
    if here.reason is not None:
        return Derived(FloquetThreshold(None, None, None, None, here.reason), here)
    return Derived(floquet_threshold(learner, linear.dynamics, momentum, interval, weight), here)


def _threshold(derived: Derived, reason: str) -> RateThreshold:
    """The exact threshold, where no second moment had to be held for it."""
    found = derived.threshold
    if derived.held or found.learning_rate is None:
        return RateThreshold.absent(reason if derived.held else found.reason or reason)
    # A flip from step to step is +1 over an even number of steps.
    kind = "flip" if found.kind == "fold" and derived.here.period % 2 == 0 else found.kind
    return RateThreshold(found.learning_rate, bifurcation=kind, note=found.reason or "")


def _operating_point(settings: PredictSettings, learner: Learner, hyper: Hyper, linear: LinearTheory) -> OperatingPoint:
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
        learner.optimizer,
        sampling=_sampling(settings, learner, hyper),
    )


def _sampling(settings: PredictSettings, learner: Learner, hyper: Hyper) -> Sampling | None:
    """What another sampler does to the fixed point."""
    said = said_of_sampler(learner, settings)
    if said is None:
        return None
    own = linearise(replace(learner, sampler=OwnLaw()), settings, settings.dynamics, hyper.kl_weight)
    return Sampling(said, two_arms_of(learner, settings, settings.dynamics), own.expected_reward)


def _regime(loop: theory.LinearLoop, radius: float, learning_rate: float, onset: float | None, cycles: bool) -> str:
    """By the largest multiplier's modulus, and by whether a mode swings.

    cycles: whether the dominant mode does from step to step. Over a block of even length its multiplier is positive
    all the same where it flips at every step, so that the onset does not tell.
    """
    if repels(loop) or radius >= 1:
        return "unstable"
    return "oscillatory" if cycles or (onset is not None and learning_rate > onset) else "overdamped"


def _intervals(linear: LinearTheory, hyper: Hyper) -> Intervals:
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


def unstable_lags(linear: LinearTheory, hyper: Hyper, maximum: int) -> list[tuple[int, int]]:
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
