"""PPO's clip."""

from dataclasses import dataclass

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import TokenMean, clipped_weight, register_estimator


@register_estimator("clipped")
@dataclass(frozen=True)
class Clipped(TokenMean):
    """PPO's symmetric clip: an action that has moved beyond 1 +- epsilon in its advantage's direction counts nothing.

    Gradient of min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A), arXiv 1707.06347 eq. 7. A ratio that has moved
    against its advantage is not clipped. Raises ValueError unless 0 < epsilon < 1.
    """

    epsilon: float = 0.2
    at_snapshot = False

    def __post_init__(self) -> None:
        _checks.require(
            0 < _checks.finite_number("estimator.epsilon", self.epsilon) < 1,
            "estimator.epsilon",
            "a number in (0, 1)",
            self.epsilon,
        )

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio, or 0 beyond the clip."""
        return clipped_weight(ratio, advantage, self.epsilon, self.epsilon)
