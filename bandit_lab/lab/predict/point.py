"""One setting of a learner: every number that the theory has for it, worked out when it is asked for."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandit_lab import theory
from bandit_lab.app.result import Value
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper, Learner, OwnLaw
from bandit_lab.lab.predict.linear import (
    RESAMPLED,
    LinearTheory,
    RateThreshold,
    linearise,
    losses_of,
    noise_covariance,
    said_of_sampler,
    signal_of,
    special,
    stationary_stds,
    two_arms_of,
    weighs,
)
from bandit_lab.loop import Loop, Reason, unstable_intervals
from bandit_lab.measure import Floquet, FloquetThreshold, floquet, floquet_threshold
from bandit_lab.theory.signal import Signal

NO_NOISE = "no noise at G = infinity"


@dataclass(frozen=True)
class Derived:
    """Threshold, and multipliers at the setting, of the real update by its own derivatives over one period."""

    threshold: FloquetThreshold
    here: Floquet

    @property
    def reason(self) -> str | None:
        """Why there are no multipliers, or None."""
        return self.here.reason

    @property
    def held(self) -> bool:
        """Whether these are the numbers of an update whose second moment stands still, which that of a run does not."""
        return self.here.moment_source is not None


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
class OperatingPoint:
    """A learner at one setting, near the fixed point of `linear`.

    Thresholds and multipliers are absent, with the reason, where there is no fixed point. Everything that names no such
    case may be asked for only where there is one.
    """

    settings: PredictSettings
    learner: Learner
    hyper: Hyper
    linear: LinearTheory

    @property
    def group_size(self) -> int | None:
        """G; None at G = infinity."""
        return None if self.settings.dynamics == "mean_field" else self.learner.group_size

    @cached_property
    def reference(self) -> np.ndarray:
        """Probabilities [K] of the reference."""
        return np.exp(np.asarray(self.learner.bandit.reference_log_policy)[0])

    @cached_property
    def initial(self) -> np.ndarray:
        """Probabilities [K] at the start of training."""
        bandit = self.learner.bandit
        return np.exp(np.asarray(bandit.log_policy(bandit.initial_parameters))[0])

    @cached_property
    def means(self) -> np.ndarray:
        """Mean [K] of the reward of each arm that is trained on."""
        return np.asarray(self.learner.bandit.law.means)[0]

    @cached_property
    def signal(self) -> Signal | None:
        """The theory's view of the reward, where it has one."""
        return signal_of(self.learner, self.settings, self.settings.dynamics)

    @cached_property
    def _one_age(self) -> tuple[np.ndarray | None, str | None]:
        """Reduced covariance [R, R] of one update's gradient where one policy acts, or None and why."""
        if self.group_size is None:
            return None, None
        return noise_covariance(self.learner, self.settings, np.asarray(self.linear.policy))

    @property
    def noise(self) -> tuple[np.ndarray | None, str | None]:
        """The same of all the policies that act."""
        found, reason = self._one_age
        share = 1.0 if self.unsupported else float(np.mean(self.loop.rule.noise))
        return None if found is None else share * found, reason

    @cached_property
    def stationary(self) -> tuple[Value, Value]:
        """(std of the reported reward, std of the log-odds of the best arm)."""
        rate, momentum, interval, _ = self.hyper
        reported = np.asarray(self.learner.bandit.true_means)[0]
        cell = (rate, momentum, interval)
        return stationary_stds(self.linear, self._one_age, reported, cell, self.settings.batch_reuse)

    @cached_property
    def sampler(self) -> str | None:
        """The sampler in words, where the policy itself does not draw."""
        return said_of_sampler(self.learner, self.settings)

    @cached_property
    def sampled_arms(self) -> "theory.SampledTwoArms | None":
        """The theory of two arms that another law draws, where it has one."""
        return two_arms_of(self.learner, self.settings, self.settings.dynamics)

    @cached_property
    def losses(self) -> list[tuple[float, int]]:
        """KL weights below which a hot sampler loses answers in turn, and which."""
        return losses_of(self.learner, self.settings, self.settings.dynamics)

    @cached_property
    def own_reward(self) -> float | None:
        """Expected reward at the fixed point to which the policy's own answers lead; None where there is none."""
        own = replace(self.learner, sampler=OwnLaw())
        return linearise(own, self.settings, self.settings.dynamics, self.hyper.kl_weight).expected_reward

    @cached_property
    def no_gradient_formula(self) -> str | None:
        """Why closed forms of the reward's gradient do not hold, or None."""
        return weighs(self.learner)

    @cached_property
    def no_drift_formula(self) -> str | None:
        """Why closed forms of the whole drift do not hold, or None."""
        return special(self.learner)

    @property
    def kappa(self) -> float:
        """Learning rate times the largest stiffness."""
        return self.hyper.learning_rate * self.linear.largest

    @property
    def loop(self) -> Loop:
        """The linear loop at this momentum and interval."""
        return self.linear.loop(self.hyper.momentum, self.hyper.refresh_interval)

    @property
    def mean_age(self) -> float:
        """Of the policy that acts [steps]."""
        return self.linear.mean_age(self.hyper.refresh_interval, self.hyper.momentum)

    @cached_property
    def derived(self) -> Derived | None:
        """By differentiating the update, for any staleness model and optimiser: where the linear theory has no loop."""
        linear = self.linear
        if linear.policy is None or linear.drawn or linear.unsupported_reason() is None:
            return None
        _, momentum, interval, weight = self.hyper
        here = floquet(self.learner, linear.dynamics, self.hyper)
        if here.reason is not None:
            return Derived(FloquetThreshold(None, None, None, None, here.reason), here)
        return Derived(floquet_threshold(self.learner, linear.dynamics, momentum, interval, weight), here)

    @property
    def exact_derivatives(self) -> Derived | None:
        """`derived` where its multipliers are those of a run: no second moment is held."""
        found = self.derived
        return None if found is None or found.reason is not None or found.held else found

    @property
    def unsupported(self) -> str | None:
        """Why there is no linear loop, and why the update has no multipliers either; None where there is a loop."""
        reason, derived = self.linear.unsupported_reason(), self.derived
        return reason if derived is None or not derived.reason else f"{reason}; {derived.reason}"

    @cached_property
    def law(self) -> RateThreshold:
        """Learning rate at which stability is lost, to leading order."""
        return self.linear.law(self.hyper.refresh_interval, self.hyper.momentum)

    @cached_property
    def exact(self) -> RateThreshold:
        """The same exactly, by the linear loop or by differentiating the update; absent if a second moment is held."""
        derived = self.derived
        if derived is None:
            return self.linear.threshold(self.hyper.refresh_interval, self.hyper.momentum)
        found, reason = derived.threshold, self.unsupported or ""
        if derived.held or found.learning_rate is None:
            return RateThreshold.absent(reason if derived.held else found.reason or reason)
        # A flip from step to step is +1 over an even number of steps.
        kind = "flip" if found.kind == "fold" and derived.here.period % 2 == 0 else found.kind
        return RateThreshold(found.learning_rate, bifurcation=kind, note=found.reason or "")

    @cached_property
    def onset(self) -> RateThreshold:
        """Learning rate from which on displacements oscillate."""
        return self.linear.onset(self.hyper.refresh_interval, self.hyper.momentum)

    @cached_property
    def _largest(self) -> complex | Reason:
        if self.exact_derivatives is not None:
            return complex(self.exact_derivatives.here.multipliers[0])
        found = self.loop.multipliers(self.hyper.learning_rate)
        return found if isinstance(found, Reason) else complex(found[0])

    @property
    def multiplier(self) -> complex:
        """The dominant multiplier over `steps` updates. Raises Missing where its map is too large."""
        if isinstance(self._largest, Reason):
            raise Missing(str(self._largest))
        return self._largest

    @property
    def steps(self) -> int:
        """Updates over which multipliers are."""
        if self.exact_derivatives is not None:
            return self.exact_derivatives.here.period
        return self.loop.rule.period

    @property
    def radius(self) -> Value:
        """Modulus of the largest multiplier."""
        reason = None if self.exact_derivatives is not None else self.unsupported
        if reason or isinstance(self._largest, Reason):
            return Value.absent(reason or str(self._largest))
        return Value.of(abs(self._largest), "the multipliers are not finite")

    @cached_property
    def period(self) -> float | None:
        """Steps per cycle of the dominant multiplier; None where it is real and positive."""
        if self.exact_derivatives is not None:
            found: float | None = self.exact_derivatives.here.cycle
        else:
            found = None if isinstance(self._largest, Reason) else self.loop.cycle(self.hyper.learning_rate)
        return None if found is None or not math.isfinite(found) else found

    @property
    def regime(self) -> str | None:
        """`overdamped`, `oscillatory` or `unstable`, None where there are no multipliers.

        A mode may swing from step to step and yet, over a block of even length, have a positive multiplier: then the
        period tells it, the onset does not.
        """
        linear = self.exact_derivatives is None
        if (linear and self.unsupported) or isinstance(self._largest, Reason):
            return None
        if not abs(self._largest) < 1 or (linear and self.loop.repels):
            return "unstable"
        onset = self.onset.value
        swings = self.period is not None or (onset is not None and self.hyper.learning_rate > onset)
        return "oscillatory" if swings else "overdamped"

    @cached_property
    def intervals(self) -> Intervals:
        """Refresh intervals at which stability is lost."""
        linear, hyper = self.linear, self.hyper
        if reason := linear.unsupported_reason():
            return Intervals(Value.absent(reason), Value.absent(reason))
        at_one = linear.law(1, hyper.momentum)
        law = Value.of(
            None if at_one.value is None else at_one.value / hyper.learning_rate, at_one.reason or str(Reason.REPELS)
        )
        found = unstable_intervals(self.learner, *linear.parts, hyper.momentum, hyper.learning_rate)
        if found.islands is None:
            return Intervals(law, Value.absent(str(found.reason)))
        stable = f"stable at every refresh interval up to {found.searched}"
        first = Value.of(found.islands[0][0] if found.islands else None, stable, "steps")
        return Intervals(law, first, found.islands, found.searched)


class Missing(Exception):
    """There is no such value here, for the reason given."""


def check_linear(point: OperatingPoint) -> None:
    if reason := point.linear.unsupported_reason():
        raise Missing(reason)


def binary(point: OperatingPoint) -> theory.BinarySignal:
    if point.sampler is not None:
        raise Missing(RESAMPLED)
    if not isinstance(point.signal, theory.BinarySignal):
        raise Missing("in closed form only for rewards 0 and 1")
    return point.signal


def check_drift_closed(point: OperatingPoint) -> None:
    if point.no_drift_formula is not None:
        raise Missing(point.no_drift_formula)


def check_gradient_closed(point: OperatingPoint) -> None:
    if point.no_gradient_formula is not None:
        raise Missing(point.no_gradient_formula)


def success_chance(point: OperatingPoint) -> float:
    binary(point)
    return float(point.linear.policy @ point.means)


def finite_group_size(point: OperatingPoint) -> int:
    if point.group_size is None:
        raise Missing(NO_NOISE)
    return point.group_size


def noise_of(point: OperatingPoint) -> np.ndarray:
    check_linear(point)
    finite_group_size(point)
    noise, reason = point.noise
    if noise is None:
        raise Missing(reason or "no formula for the gradient noise")
    return noise


def check_wholly_stale(point: OperatingPoint) -> None:
    if not point.linear.drawn:
        check_linear(point)
    if not point.linear.wholly_stale:
        raise Missing("one number only where the whole stiffness is stale")
