"""The unclipped importance ratio."""

from dataclasses import dataclass

from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import Estimator, register_estimator


@register_estimator("ratio")
@dataclass(frozen=True)
class Ratio(Estimator):
    """Importance-weighted, not clipped: A pi(a)/pi_old(a) grad log pi(a). Fresh in the mean but for the group std."""

    at_snapshot = False

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """ratio."""
        return ratio
