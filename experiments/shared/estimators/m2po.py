"""Importance weights of the actions that moved least, so that their second moment is bounded."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import register_estimator


@register_estimator("m2po")
@dataclass(frozen=True)
class M2PO:
    """A pi/pi_old grad log pi of the actions that are kept: the largest |log pi/pi_old| are left out until the mean of
    its square over the others is at most `threshold`.

    arXiv 2510.01161. There the mean is over the tokens of a batch; here over the actions of a group, and
    equal ones go together. In an infinite group the mean is that of the law that drew. Nothing is left out on policy.
    Raises ValueError for threshold <= 0.
    """

    threshold: float = 0.04
    at_snapshot = False

    def __post_init__(self) -> None:
        _checks.positive("estimator.threshold", self.threshold)

    def of_group(self, log_policy: Array, log_old: Array, advantage: Array, share: Array) -> Array:
        """A pi/pi_old, or 0 for what is left out."""
        change = log_policy - log_old
        square = change**2
        upto = jnp.where(square[None] <= square[:, None], share[None], 0)  # [M, M, ...]: the second moved no farther
        kept = jnp.sum(upto * square[None], axis=1) <= self.threshold * jnp.sum(upto, axis=1)
        return jnp.where(kept, advantage * jnp.exp(jnp.where(kept, change, 0)), 0)
