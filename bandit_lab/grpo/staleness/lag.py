"""Model B."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax

from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import register_staleness


@register_staleness("lag")
@dataclass(frozen=True)
class Lag:
    """Model B: theta_{t-N}. State: a ring of the last horizon + 1 parameters [horizon + 1, D]."""

    model = "B"
    smallest_interval = 0
    block_synchronous = False
    whole_interval = True

    def horizon_for(self, interval: float) -> int:
        """The lag."""
        return int(interval)

    def init(self, theta: Array, horizon: int) -> Array:
        """A ring filled with theta_0."""
        return jnp.broadcast_to(theta, (horizon + 1, *theta.shape))

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array, Array]:
        """The entry written `interval` steps ago; before there is one, theta_0."""
        length = state.shape[0]
        state = lax.dynamic_update_index_in_dim(state, theta, step % length, 0)
        return lax.dynamic_index_in_dim(state, (step - interval) % length, 0, keepdims=False), state

    def period(self, interval: int) -> int:
        """One step: every step looks the same number of steps back."""
        return 1

    def rewind(self, state: Array, steps: int) -> Array:
        """The ring turned back: what was written at step t stands where step t - steps would have written it."""
        return jnp.roll(state, -steps, axis=0)
