"""The clipped ratio as a weight that is not differentiated."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import TokenMean, register_estimator


@register_estimator("cispo")
@dataclass(frozen=True)
class CISPO(TokenMean):
    """A clip(ratio, 1 - epsilon_low, 1 + epsilon_high) grad log pi: no action drops out. arXiv 2506.13585.
    The mean is the sum over actions of clip(ratio) pi_old A grad log pi: within the bounds, so at a fixed point, that
    of `ratio`; with both beyond every ratio of two policies it is `ratio` everywhere.

    epsilon_low = 1 is no lower bound, as there. Raises ValueError unless 0 < epsilon_low <= 1 and epsilon_high > 0.
    """

    epsilon_low: float = 1.0
    epsilon_high: float = 0.28
    at_snapshot = False

    def __post_init__(self) -> None:
        low = _checks.positive("estimator.epsilon_low", self.epsilon_low)
        _checks.require(low <= 1, "estimator.epsilon_low", "a number in (0, 1]", self.epsilon_low)
        _checks.positive("estimator.epsilon_high", self.epsilon_high)

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """The clipped ratio, whatever the sign of the advantage."""
        return jnp.clip(ratio, 1 - self.epsilon_low, 1 + self.epsilon_high)
