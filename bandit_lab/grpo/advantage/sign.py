"""Plus one for a success, minus one for a failure."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import register_advantage


@register_advantage("sign")
@dataclass(frozen=True)
class Sign:
    """A_i = sign(r_i - threshold), without a baseline: 2 r - 1 for rewards 0 and 1. arXiv 2506.01347.

    For binary rewards the mean gradient on policy is twice that of RLOO. The threshold is in units of the
    reward. Raises ValueError unless it is finite.
    """

    threshold: float = 0.5
    smallest_group = 1
    linear = False
    centred = False
    drops_silent = False

    def __post_init__(self) -> None:
        _checks.finite_number("advantage.threshold", self.threshold)

    def advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """sign(values - threshold)."""
        return jnp.sign(values - self.threshold)

    def in_normal_group(self, share: Array, means: Array, stds: Array) -> tuple[Array, Callable[[Array], Array]]:
        """(The threshold, the sign)."""
        return jnp.asarray(self.threshold, share.dtype), lambda rewards: jnp.sign(rewards - self.threshold)
