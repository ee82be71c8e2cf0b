"""One setting of a learner: every number that the theory has for it, worked out when it is asked for."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandit_lab import theory
from bandit_lab.app.result import Value
from bandit_lab.app.settings.config import PredictSettings
from bandit_lab.grpo import Hyper, Learner, NoCorrection, OwnLaw, resampled
from bandit_lab.lab.predict.fixed_point import (
    LinearTheory,
    linearise,
    noise_covariance,
    signal_of,
    stationary_stds,
    two_arms_of,
)
from bandit_lab.loop import Loop, RateCrossing, Reason, UnstableIntervals, unstable_intervals
from bandit_lab.measure import Floquet, FloquetThreshold, floquet, floquet_threshold
from bandit_lab.theory.stiffness import Signal


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
    def means(self) -> np.ndarray:
        """Mean [K] of the reward of each arm that is trained on."""
        return np.asarray(self.learner.bandit.law.means)[0]

    @cached_property
    def signal(self) -> Signal | None:
        """The theory's view of the reward, where it has one."""
        return signal_of(self.learner, self.settings.dynamics)

    @cached_property
    def _one_age(self) -> tuple[np.ndarray | None, str | None]:
        """Reduced covariance [R, R] of one update's gradient where one policy acts, or None and why."""
        if self.group_size is None:
            return None, None
        return noise_covariance(self.learner, np.asarray(self.linear.policy))

    @property
    def noise(self) -> tuple[np.ndarray | None, str | None]:
        """The same of all the policies that act."""
        covariance, reason = self._one_age
        share = 1.0 if self.unsupported else float(np.mean(self.loop.rule.noise))
        return None if covariance is None else share * covariance, reason

    @cached_property
    def stationary(self) -> tuple[Value, Value]:
        """(std of the reported reward, std of the log-odds of the best arm)."""
        rate, momentum, interval, _ = self.hyper
        reported = np.asarray(self.learner.bandit.true_means)[0]
        cell = (rate, momentum, interval)
        return stationary_stds(self.linear, self._one_age, reported, cell, self.settings.batch_reuse)

    @property
    def sampler(self) -> str | None:
        """The sampler in words, where the policy itself does not draw."""
        correction = self.learner.correction
        corrected = "" if isinstance(correction, NoCorrection) else f" with {correction}"
        return f"samples by {self.learner.sampler}{corrected}" if resampled(self.learner) else None

    @cached_property
    def sampled_arms(self) -> "theory.SampledTwoArms | None":
        """The theory of two arms that another law draws, where it has one."""
        return two_arms_of(self.learner, self.settings.dynamics)

    @cached_property
    def own_reward(self) -> float | None:
        """Expected reward at the fixed point to which the policy's own answers lead; None where there is none."""
        own = replace(self.learner, sampler=OwnLaw())
        return linearise(own, self.settings.dynamics, self.hyper.kl_weight).expected_reward

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
        """Mean age of the policy that acts [steps]."""
        return float(self.loop.rule.ages.mean())

    @cached_property
    def derived(self) -> Floquet | None:
        """Multipliers by differentiating the update, where the optimiser has no loop."""
        if self.linear.unsupported_reason() is not Reason.NOT_LINEAR:
            return None
        return floquet(self.learner, self.linear.dynamics, self.hyper)

    @cached_property
    def derived_threshold(self) -> FloquetThreshold:
        """The threshold of the same."""
        _, momentum, interval, weight = self.hyper
        return floquet_threshold(self.learner, self.linear.dynamics, momentum, interval, weight)

    @property
    def exact_derivatives(self) -> Floquet | None:
        """`derived` where its multipliers are those of a run: no second moment is held."""
        derived = self.derived
        return None if derived is None or derived.reason is not None or derived.moment_source is not None else derived

    @property
    def unsupported(self) -> str | None:
        """Why there is no linear loop, and why the update has no multipliers either; None where there is a loop."""
        reason, derived = self.linear.unsupported_reason(), self.derived
        return reason if derived is None or not derived.reason else f"{reason}; {derived.reason}"

    @cached_property
    def law(self) -> RateCrossing:
        """Learning rate at which stability is lost, to leading order."""
        return self.linear.rate("law", self.hyper.refresh_interval, self.hyper.momentum)

    @cached_property
    def exact(self) -> RateCrossing:
        """The same exactly, by the linear loop or by differentiating the update; absent if a second moment is held."""
        derived = self.derived
        if derived is None:
            return self.linear.rate("threshold", self.hyper.refresh_interval, self.hyper.momentum)
        if self.exact_derivatives is None:
            return RateCrossing(None, None, self.unsupported if derived.moment_source else derived.reason)
        threshold = self.derived_threshold
        # A flip from step to step is +1 over an even number of steps.
        kind = "flip" if threshold.kind == "fold" and derived.period % 2 == 0 else threshold.kind
        return RateCrossing(threshold.learning_rate, kind, threshold.reason)

    @cached_property
    def onset(self) -> RateCrossing:
        """Learning rate from which on displacements oscillate."""
        return self.linear.rate("onset", self.hyper.refresh_interval, self.hyper.momentum)

    @cached_property
    def _largest(self) -> complex | Reason:
        if self.exact_derivatives is not None:
            return complex(self.exact_derivatives.multipliers[0])
        multipliers = self.loop.multipliers(self.hyper.learning_rate)
        return multipliers if isinstance(multipliers, Reason) else complex(multipliers[0])

    @property
    def steps(self) -> int:
        """Updates over which multipliers are."""
        return self.loop.rule.period if self.exact_derivatives is None else self.exact_derivatives.period

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
            cycle: float | None = self.exact_derivatives.cycle
        else:
            cycle = None if isinstance(self._largest, Reason) else self.loop.cycle(self.hyper.learning_rate)
        return None if cycle is None or not math.isfinite(cycle) else cycle

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
    def intervals(self) -> UnstableIntervals:
        """Refresh intervals at which stability is lost at this learning rate."""
        if reason := self.linear.unsupported_reason():
            return UnstableIntervals(None, None, reason)
        return unstable_intervals(self.learner, *self.linear.parts, self.hyper.momentum, self.hyper.learning_rate)

    @property
    def first_unstable(self) -> Value:
        """The first of them."""
        islands, searched, reason = self.intervals
        if islands is None:
            return Value.absent(reason or "")
        first = islands[0][0] if islands else None
        return Value.of(first, f"stable at every refresh interval up to {searched}", "steps")

    @property
    def interval_law(self) -> Value:
        """The same to leading order."""
        at_one = self.linear.rate("law", 1, self.hyper.momentum)
        return Value.of(at_one.value and at_one.value / self.hyper.learning_rate, at_one.reason or "")
