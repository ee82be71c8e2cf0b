"""Model B."""

from dataclasses import dataclass

from jax import lax

from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import Ring, register_staleness


@register_staleness("lag")
@dataclass(frozen=True)
class Lag(Ring):
    """Model B: the policy of exactly N steps ago acts, theta_{t-N}.

    State: a ring of the last horizon + 1 parameters [horizon + 1, D].
    """

    model = "B"
    whole_interval = True

    def horizon_for(self, interval: float) -> int:
        """The lag."""
        return int(interval)

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
