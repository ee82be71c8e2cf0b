"""Which old policy the actions of step t were drawn from: three meanings of "refresh interval N".

Step t is the number of updates done. The policy used at step t has the age

    model A  refresh    t mod N            0 .. N-1    sample at block start, N updates on it
    model B  lag        N (t until then)   exactly N   asynchronous pipeline with constant lag; N = 0 is on-policy
    model C  pipeline   N + t mod N        N .. 2N-1   train on what the policy of the previous block produced

and is theta_0 before it exists. A at N = 1 equals B at N = 0; C at N = 1 equals B at N = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp

from bandit_lab._types import Array


class Staleness(Protocol):
    """A rule that keeps old parameters and hands out the ones that acted.

    For developers. A new rule is a frozen (hashable) dataclass with

    - `model`: its letter or name in tables; `smallest_interval`: the least refresh interval it allows;
    - `block_synchronous`: True if the behaviour policy changes only where t mod N = 0;
    - `init(theta, horizon)`: the state before step 0, a pytree of arrays whose parameters are all theta; `horizon` is
      the (static) largest refresh interval that will be asked for;
    - `behaviour(state, theta, step, interval)`: (parameters that act at this step, next state); `interval` is traced.
    """

    @property
    def model(self) -> str:
        """Its letter or name in tables."""
        ...

    @property
    def smallest_interval(self) -> int:
        """Least refresh interval."""
        ...

    @property
    def block_synchronous(self) -> bool:
        """Whether the behaviour policy changes at block starts only."""
        ...

    def init(self, theta: Array, horizon: int) -> Any:
        """State before step 0."""
        ...

    def behaviour(self, state: Any, theta: Array, step: Array, interval: Array) -> tuple[Array, Any]:
        """Parameters [D] of the policy that acts at this step, and the next state."""
        ...


@dataclass(frozen=True)
class Refresh:
    """Model A: the snapshot is taken at t mod N = 0, before the update. State: the snapshot [D]."""

    model: str = "A"
    smallest_interval: int = 1
    block_synchronous: bool = True

    def init(self, theta: Array, horizon: int) -> Array:
        """The snapshot is theta_0."""
        return theta

    def behaviour(self, state: Array, theta: Array, step: Array, interval: Array) -> tuple[Array, Array]:
        """theta itself at block start, else the snapshot."""
        snapshot = jnp.where(step % interval == 0, theta, state)
        return snapshot, snapshot


@dataclass(frozen=True)
class Lag:
    """Model B: theta_{t-N}. State: a ring of the last horizon + 1 parameters [horizon + 1, D]."""

    model: str = "B"
    smallest_interval: int = 0
    block_synchronous: bool = False

    def init(self, theta: Array, horizon: int) -> Array:
        """A ring filled with theta_0."""
        return jnp.tile(theta, (horizon + 1, 1))

    def behaviour(self, state: Array, theta: Array, step: Array, interval: Array) -> tuple[Array, Array]:
        """The entry written `interval` steps ago; before there is one, theta_0."""
        length = state.shape[0]
        state = state.at[step % length].set(theta)
        return state[(step - interval) % length], state


@dataclass(frozen=True)
class Pipeline:
    """Model C: theta_{(floor(t/N) - 1) N}. State: (start of the previous block [D], start of this block [D])."""

    model: str = "C"
    smallest_interval: int = 1
    block_synchronous: bool = True

    def init(self, theta: Array, horizon: int) -> tuple[Array, Array]:
        """Both snapshots are theta_0."""
        return theta, theta

    def behaviour(
        self, state: tuple[Array, Array], theta: Array, step: Array, interval: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        """The snapshot of the previous block's start."""
        starts_block = step % interval == 0
        previous = jnp.where(starts_block, state[1], state[0])
        current = jnp.where(starts_block, theta, state[1])
        return previous, (previous, current)


STALENESS: dict[str, Callable[..., Staleness]] = {"refresh": Refresh, "lag": Lag, "pipeline": Pipeline}
