"""Rewards less the group's mean, over a power of its std: between no normalisation and that of GRPO."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import Scaled, register_advantage


@register_advantage("tempered")
@dataclass(frozen=True)
class Tempered(Scaled):
    """A_i = (r_i - mean) / std^power, zero for a silent group. Our own definition.

    power 0 is Dr. GRPO, 1 is GRPO (population std, eps = 0). Infinite groups: grad J / sigma^power, so that with two
    arms the log-odds move at (p (1-p))^(1 - power/2). Finite groups, rewards 0 and 1: that gradient times
    E[(k/G (1 - k/G))^(1 - power/2)] / (p (1-p))^(1 - power/2), k binomial: the sum that `finite_group` makes (derived
    here; in closed form for the powers 0 and 2 alone, 1 - 1/G and 1 - p^G - (1-p)^G). Raises ValueError unless power
    is in [0, 2].
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        inside = 0 <= _checks.finite_number("advantage.power", self.power) <= 2
        _checks.require(inside, "advantage.power", "a number in [0, 2]", self.power)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1 / std^power, 0 for silent groups, differentiable there too."""
        spread = jnp.where(silent, 1, variance)
        return jnp.where(silent, 0, jnp.exp(jnp.log(spread) * (-self.power / 2)))  # a power costs several of these
