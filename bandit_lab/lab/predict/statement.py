"""What a statement of the theory about one setting is, and what it may look at."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandit_lab import theory
from bandit_lab.app.document import Value
from bandit_lab.grpo import Hyper, Optimizer
from bandit_lab.lab.predict.linear import RESAMPLED, LinearTheory, stationary_stds
from bandit_lab.measure import Floquet, FloquetThreshold
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
class Sampling:
    """Answers that another law draws. said: in words. arms: the theory of two arms, where there is one. own_reward: at
    the fixed point that the policy's own answers lead to; None where there is none."""

    said: str
    arms: theory.SampledTwoArms | None
    own_reward: float | None


@dataclass(frozen=True)
class OperatingPoint:
    """What a statement may look at.

    group_size: None at G = infinity. reference, initial: [K] probabilities. means, reported: [K] mean trained and
    reported reward of each arm. noise: reduced covariance [R, R] of one update's gradient, or None with noise_reason.
    prompts: groups per step. weighing: why formulas of the reward's gradient do not hold; special: why those of the
    whole drift do not; or None. derived: where the linear theory has no loop. sampling: where another law draws.
    """

    linear: LinearTheory
    hyper: Hyper
    group_size: int | None
    reference: np.ndarray
    initial: np.ndarray
    means: np.ndarray
    reported: np.ndarray
    signal: Signal | None
    noise: np.ndarray | None
    noise_reason: str | None
    batch_reuse: bool
    prompts: int
    weighing: str | None = None
    special: str | None = None
    optimizer: Optimizer = Optimizer()
    derived: Derived | None = None
    sampling: Sampling | None = None

    @property
    def exact_derivatives(self) -> Derived | None:
        """`derived` where its multipliers are those of a run: no second moment is held."""
        found = self.derived
        return None if found is None or found.reason is not None or found.held else found

    @property
    def kappa(self) -> float:
        """Learning rate times the largest stiffness."""
        return self.hyper.learning_rate * self.linear.largest

    @cached_property
    def stationary(self) -> tuple[Value, Value]:
        """(std of the reported reward, std of the log-odds of the best arm)."""
        rate, momentum, interval, _ = self.hyper
        cell = (rate, momentum, interval)
        return stationary_stds(self.linear, (self.noise, self.noise_reason), self.reported, cell, self.batch_reuse)

    @property
    def loop(self) -> theory.LinearLoop:
        """The linear loop at this momentum."""
        return self.linear.loop(self.hyper.momentum)


class Missing(Exception):
    """There is no such value here, for the reason given."""


def known(linear: LinearTheory) -> None:
    if reason := linear.unsupported_reason():
        raise Missing(reason)


def binary(setting: OperatingPoint) -> theory.BinarySignal:
    if setting.sampling is not None:
        raise Missing(RESAMPLED)
    if not isinstance(setting.signal, theory.BinarySignal):
        raise Missing("in closed form only for rewards 0 and 1")
    return setting.signal


def not_special(setting: OperatingPoint) -> None:
    if setting.special is not None:
        raise Missing(setting.special)


def unweighed(setting: OperatingPoint) -> None:
    if setting.weighing is not None:
        raise Missing(setting.weighing)


def success_chance(setting: OperatingPoint) -> float:
    binary(setting)
    return float(setting.linear.policy @ setting.means)


def group_size_of(setting: OperatingPoint) -> int:
    if setting.group_size is None:
        raise Missing(NO_NOISE)
    return setting.group_size


def number_of(found: Value) -> float:
    if found.value is None:
        raise Missing(found.reason or "none")
    return float(found.value)


def noise_of(setting: OperatingPoint) -> np.ndarray:
    known(setting.linear)
    group_size_of(setting)
    if setting.noise is None:
        raise Missing(setting.noise_reason or "no formula for the gradient noise")
    return setting.noise


def wholly_stale(setting: OperatingPoint) -> None:
    if not setting.linear.drawn and setting.linear.ages is None:
        known(setting.linear)
    if not setting.linear.wholly_stale:
        raise Missing("one number only where the whole stiffness is stale")


def mean_age(setting: OperatingPoint) -> float:
    model = setting.linear.model
    if setting.linear.ages is not None:
        return theory.mean_age_of(setting.linear.ages.of_steps(setting.hyper.refresh_interval))
    return theory.mean_age("random" if model == "random_mean" else model, setting.hyper.refresh_interval)
