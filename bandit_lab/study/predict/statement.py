"""What a statement of the theory about one setting is, and what it may look at."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandit_lab import theory
from bandit_lab.grpo import Hyper
from bandit_lab.study.document import Value
from bandit_lab.study.wiring import Linear, stationary_stds
from bandit_lab.theory.signal import Signal

NO_NOISE = "no noise at G = infinity"


@dataclass(frozen=True)
class OperatingPoint:
    """What a statement may look at.

    group_size: None at G = infinity. reference, initial: [K] probabilities. means, reported: [K] mean trained and
    reported reward of each arm. noise: reduced covariance [R, R] of one update's gradient, or None with noise_reason.
    prompts: groups per step. weighing: why formulas of the reward's gradient do not hold; special: why those of the
    whole drift do not; or None.
    """

    linear: Linear
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


def known(linear: Linear) -> None:
    if reason := linear.unsupported_reason():
        raise Missing(reason)


def binary(setting: OperatingPoint) -> theory.BinarySignal:
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
    if setting.linear.model != "random":
        known(setting.linear)
    if not setting.linear.wholly_stale:
        raise Missing("one number only where the whole stiffness is stale")


def mean_age(setting: OperatingPoint) -> float:
    model = setting.linear.model
    return theory.mean_age("random" if model == "random_mean" else model, setting.hyper.refresh_interval)
