"""DAPO's clip."""

from dataclasses import dataclass

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import TokenMean, clipped_weight, register_estimator


@register_estimator("clip_higher")
@dataclass(frozen=True)
class ClipHigher(TokenMean):
    """Asymmetric clip of DAPO: more room upwards, min(ratio A, clip(ratio, 1 - epsilon_low, 1 + epsilon_high) A).

    arXiv 2503.14476, section 3.1. Raises ValueError unless 0 < epsilon_low < 1 and epsilon_high > 0.
    """

    epsilon_low: float = 0.2
    epsilon_high: float = 0.28
    at_snapshot = False

    def __post_init__(self) -> None:
        low = _checks.finite_number("estimator.epsilon_low", self.epsilon_low)
        _checks.require(0 < low < 1, "estimator.epsilon_low", "a number in (0, 1)", self.epsilon_low)
        _checks.positive("estimator.epsilon_high", self.epsilon_high)

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio, or 0 beyond the clip."""
        return clipped_weight(ratio, advantage, self.epsilon_low, self.epsilon_high)
