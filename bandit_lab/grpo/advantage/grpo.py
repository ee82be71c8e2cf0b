"""Rewards less their group's mean, over the group's std."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import Scaled, register_advantage


@register_advantage("grpo")
@dataclass(frozen=True)
class GRPO(Scaled):
    """A_i = (r_i - mean) / (std + eps), zero for a silent group (all rewards equal). arXiv 2402.03300, sec. 4.1.

    ddof = 0 is the population std (verl's torch.std uses 1). eps, in units of the reward, is 0 by default because a
    silent group is set to zero explicitly: an eps there would only turn rounding errors into advantages. Raises
    ValueError unless eps >= 0 and ddof is 0 or 1.
    """

    eps: float = 0.0
    ddof: int = 0

    def __post_init__(self) -> None:
        _checks.non_negative("advantage.eps", self.eps)
        _checks.require(self.ddof in (0, 1), "advantage.ddof", "0 or 1", self.ddof)

    def scale(self, variance: Array, silent: Array, size: int | None) -> Array:
        """1 / (std + eps), smooth, and exactly 0 for silent groups: no rounding error can pass for a std."""
        freedom = 1 if size is None else size / (size - self.ddof)
        std = jnp.sqrt(jnp.where(silent, 1, variance * freedom))
        return jnp.where(silent, 0, 1 / (std + self.eps))
