"""Old actions in the current policy's gradient, as if they were its own."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import Estimator, register_estimator


@register_estimator("uncorrected")
@dataclass(frozen=True)
class Uncorrected(Estimator):
    """Actions of the snapshot, no importance ratio; score and exact KL at the current policy.

    With group-centred advantages (1/G) sum_i A_i (e_{a_i} - pi) does not depend on pi, group by group. So the reward
    part is the frozen one; only the KL term is fresh.
    """

    at_snapshot = False
    ignores_ratio = True

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """1."""
        return jnp.ones_like(ratio)
