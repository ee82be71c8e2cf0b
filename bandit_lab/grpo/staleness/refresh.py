"""Model A."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import Snapshots, register_staleness


@register_staleness("refresh")
@dataclass(frozen=True)
class Refresh(Snapshots):
    """Model A: a snapshot acts for N steps; it is taken at t mod N = 0, before the update.

    State: the snapshot [D].
    """

    model = "A"

    def init(self, theta: Array, horizon: int) -> Array:
        """The snapshot is theta_0."""
        return theta

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array, Array]:
        """theta itself at block start, else the snapshot."""
        snapshot = jnp.where(step % interval == 0, theta, state)
        return snapshot, snapshot
