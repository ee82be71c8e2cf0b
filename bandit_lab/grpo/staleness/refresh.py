"""Model A."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import register_staleness


@register_staleness("refresh")
@dataclass(frozen=True)
class Refresh:
    """Model A: the snapshot is taken at t mod N = 0, before the update. State: the snapshot [D]."""

    model = "A"
    smallest_interval = 1
    block_synchronous = True
    whole_interval = True

    def horizon_for(self, interval: float) -> int:
        """None: snapshots are kept, not a history."""
        return 0

    def init(self, theta: Array, horizon: int) -> Array:
        """The snapshot is theta_0."""
        return theta

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array, Array]:
        """theta itself at block start, else the snapshot."""
        snapshot = jnp.where(step % interval == 0, theta, state)
        return snapshot, snapshot

    def period(self, interval: int) -> int:
        """One block."""
        return interval

    def rewind(self, state: Array, steps: int) -> Array:
        """Nothing to do: snapshots carry no clock."""
        return state
