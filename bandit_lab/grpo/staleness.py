"""Which old policy the actions of step t were drawn from: several meanings of "refresh interval N".

Step t is the number of updates done. The policy used at step t has the age

    model A  refresh    t mod N            0 .. N-1    sample at block start, N updates on it
    model B  lag        N (t until then)   exactly N   asynchronous pipeline with constant lag; N = 0 is on-policy
    model C  pipeline   N + t mod N        N .. 2N-1   train on what the policy of the previous block produced

and is theta_0 before it exists. A at N = 1 equals B at N = 0; C at N = 1 equals B at N = 1. Ages drawn at random are
in `random_ages`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
from jax import lax

from bandit_lab._types import Array
from bandit_lab.grpo.random_ages import Mixture, Random, RandomMean


class Staleness(Protocol):
    """A rule that keeps old parameters and hands out the ones that acted.

    For developers. A new rule is a frozen (hashable) dataclass with

    - `model`: its letter or name in tables; `smallest_interval`: the least refresh interval it allows;
    - `whole_interval`: True if the refresh interval is a whole number of steps, False if it is real;
    - `block_synchronous`: True if the behaviour policy changes only where t mod N = 0;
    - `horizon_for(interval)`: steps that have to be remembered for refresh intervals up to this one (static);
    - `init(theta, horizon)`: the state before step 0, a pytree of arrays whose parameters are all theta. Here and in
      `behaviour`, theta may be [D] or, where many seeds run side by side, [D, L];
    - `behaviour(state, theta, step, interval, key)`: (parameters that act at this step, next state); `interval` is
      traced; a rule that draws something consumes `key`, the others do without one; where several policies act at once
      their parameters come as a `Mixture`, over which the gradient is averaged;
    - if it draws something, `recall(state, theta, step, interval, uniform)`: the same with theta [D, L] and a random
      number in [0, 1) per run [L] in place of a key (without it only the reference path runs);
    - `period(interval)`: steps after which the rule repeats itself; `rewind(state, steps)`: the state as it would be
      had the last `steps` steps (one period) not been counted, so that one period maps states at step 0 to states at
      step 0. That map is what Floquet multipliers belong to.
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
    def whole_interval(self) -> bool:
        """Whether the refresh interval is a whole number."""
        ...

    @property
    def block_synchronous(self) -> bool:
        """Whether the behaviour policy changes at block starts only."""
        ...

    def horizon_for(self, interval: float) -> int:
        """Steps to remember for refresh intervals up to this one."""
        ...

    def init(self, theta: Array, horizon: int) -> Any:
        """State before step 0."""
        ...

    def behaviour(
        self, state: Any, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array | Mixture, Any]:
        """Parameters [D] of the policy that acts at this step, and the next state."""
        ...

    def period(self, interval: int) -> int:
        """Steps after which the rule repeats itself."""
        ...

    def rewind(self, state: Any, steps: int) -> Any:
        """The state with its clock set back by one period."""
        ...


@dataclass(frozen=True)
class Refresh:
    """Model A: the snapshot is taken at t mod N = 0, before the update. State: the snapshot [D]."""

    model: str = "A"
    smallest_interval: int = 1
    block_synchronous: bool = True
    whole_interval: bool = True

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


@dataclass(frozen=True)
class Lag:
    """Model B: theta_{t-N}. State: a ring of the last horizon + 1 parameters [horizon + 1, D]."""

    model: str = "B"
    smallest_interval: int = 0
    block_synchronous: bool = False
    whole_interval: bool = True

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


@dataclass(frozen=True)
class Pipeline:
    """Model C: theta_{(floor(t/N) - 1) N}. State: (start of the previous block [D], start of this block [D])."""

    model: str = "C"
    smallest_interval: int = 1
    block_synchronous: bool = True
    whole_interval: bool = True

    def horizon_for(self, interval: float) -> int:
        """None: snapshots are kept, not a history."""
        return 0

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

    def period(self, interval: int) -> int:
        """One block."""
        return interval

    def rewind(self, state: tuple[Array, Array], steps: int) -> tuple[Array, Array]:
        """Nothing to do: snapshots carry no clock."""
        return state


STALENESS: dict[str, Callable[..., Staleness]] = {
    "refresh": Refresh,
    "lag": Lag,
    "pipeline": Pipeline,
    "random": Random,
    "random_mean": RandomMean,
}
