"""Rewards as they are."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import register_advantage


@register_advantage("none")
@dataclass(frozen=True)
class NoBaseline:
    """A_i = r_i: REINFORCE without a baseline (Williams 1992). The mean gradient on policy is that of RLOO.

    Without a baseline the gradient of an old action at the current policy (`uncorrected`) is not the frozen one: it
    pulls the current policy to the old one with weight J.
    """

    smallest_group = 1
    linear = True
    centred = False
    drops_silent = False

    def advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """values."""
        return values

    def in_normal_group(self, share: Array, means: Array, stds: Array) -> tuple[Array, Callable[[Array], Array]]:
        """(0, the rewards)."""
        return jnp.zeros((), share.dtype), lambda rewards: rewards
