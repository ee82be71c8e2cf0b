"""Everything taken at the policy that acted."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import Estimator, register_estimator


@register_estimator("frozen")
@dataclass(frozen=True)
class Frozen(Estimator):
    """Reward and KL gradient both evaluated at the snapshot: the whole drift is stale (model A of the refresh law)."""

    at_snapshot = True
    ignores_ratio = True

    def weight(self, ratio: Array, advantage: Array) -> Array:
        """1."""
        return jnp.ones_like(ratio)
