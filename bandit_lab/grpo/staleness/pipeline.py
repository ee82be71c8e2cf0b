"""Model C."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import Snapshots, register_staleness


@register_staleness("pipeline")
@dataclass(frozen=True)
class Pipeline(Snapshots):
    """Model C: the policy at the start of the previous block of N steps acts, theta_{(floor(t/N) - 1) N}.

    State: (start of the previous block [D], start of this block [D]).
    """

    model = "C"

    def init(self, theta: Array, horizon: int) -> tuple[Array, Array]:
        """Both snapshots are theta_0."""
        return theta, theta

    def behaviour(
        self, state: tuple[Array, Array], theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array, tuple[Array, Array]]:
        """The snapshot of the previous block's start."""
        starts_block = step % interval == 0
        previous = jnp.where(starts_block, state[1], state[0])
        current = jnp.where(starts_block, theta, state[1])
        return previous, (previous, current)
