"""How an action that was drawn from an old policy counts in the gradient at the current one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array


class Estimator(Protocol):
    """The gradient of one action a with advantage A is  weight(ratio, A) * A * grad log pi(a).

    ratio = pi(a) / pi_old(a), current over behaviour policy.

    For developers. A new estimator is a frozen (hashable) dataclass with

    - `at_snapshot`: whether grad log pi and the KL term are taken at the behaviour policy (True) or at the current
      policy (False);
    - `weight(ratio, advantage)`: scalars -> scalar factor; it is a value, never differentiated;
    - `ignores_ratio`: True if that factor is always 1 (may be left out: then it is worked out).
    """

    @property
    def at_snapshot(self) -> bool:
        """Whether the gradient is taken at the behaviour policy."""
        ...

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """Factor of one action's advantage."""
        ...


@dataclass(frozen=True)
class Frozen:
    """Reward and KL gradient both evaluated at the snapshot: the whole drift is stale (model A of the refresh law)."""

    at_snapshot: bool = True
    ignores_ratio: bool = True

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """1."""
        return jnp.ones_like(ratio)


@dataclass(frozen=True)
class Uncorrected:
    """Actions of the snapshot, no importance ratio; score and exact KL at the current policy.

    With group-centred advantages (1/G) sum_i A_i (e_{a_i} - pi) does not depend on pi, group by group, so that the
    reward part is the frozen one; only the KL term is fresh.
    """

    at_snapshot: bool = False
    ignores_ratio: bool = True

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """1."""
        return jnp.ones_like(ratio)


@dataclass(frozen=True)
class Ratio:
    """Importance-weighted, not clipped: A pi(a)/pi_old(a) grad log pi(a). Fresh in the mean but for the group std."""

    at_snapshot: bool = False

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio."""
        return ratio


def _clipped_weight(ratio: Array, advantage: Array, low: float, high: float) -> Array:
    """The ratio, and 0 where the objective min(ratio A, clip(ratio, 1 - low, 1 + high) A) does not depend on it."""
    flat = ((advantage > 0) & (ratio > 1 + high)) | ((advantage < 0) & (ratio < 1 - low))
    return jnp.where(flat, 0, ratio)


@dataclass(frozen=True)
class Clipped:
    """PPO's symmetric clip: an action that has moved beyond 1 +- epsilon in its advantage's direction counts nothing.

    Gradient of min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A), arXiv 1707.06347 eq. 7. A ratio that has moved
    against its advantage is not clipped. Raises ValueError unless 0 < epsilon < 1.
    """

    epsilon: float = 0.2
    at_snapshot: bool = False

    def __post_init__(self) -> None:
        _checks.require(
            0 < _checks.finite_number("estimator.epsilon", self.epsilon) < 1,
            "estimator.epsilon",
            "a number in (0, 1)",
            self.epsilon,
        )

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio, or 0 beyond the clip."""
        return _clipped_weight(ratio, advantage, self.epsilon, self.epsilon)


@dataclass(frozen=True)
class ClipHigher:
    """Asymmetric clip of DAPO: more room upwards, min(ratio A, clip(ratio, 1 - epsilon_low, 1 + epsilon_high) A).

    arXiv 2503.14476, section 3.1. Raises ValueError unless 0 < epsilon_low < 1 and epsilon_high > 0.
    """

    epsilon_low: float = 0.2
    epsilon_high: float = 0.28
    at_snapshot: bool = False

    def __post_init__(self) -> None:
        low = _checks.finite_number("estimator.epsilon_low", self.epsilon_low)
        _checks.require(0 < low < 1, "estimator.epsilon_low", "a number in (0, 1)", self.epsilon_low)
        _checks.positive("estimator.epsilon_high", self.epsilon_high)

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio, or 0 beyond the clip."""
        return _clipped_weight(ratio, advantage, self.epsilon_low, self.epsilon_high)


ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "frozen": Frozen,
    "uncorrected": Uncorrected,
    "ratio": Ratio,
    "clipped": Clipped,
    "clip_higher": ClipHigher,
}
