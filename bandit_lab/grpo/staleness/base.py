"""The interface of a staleness model."""

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import lax

from bandit_lab._numerics import materialize, row_of_each
from bandit_lab._registry import Registry
from bandit_lab._types import Array


class Mixture(NamedTuple):
    """Several policies that act at once: parameters [M, D] and their shares [M], of sum 1."""

    theta: Array
    share: Array


class Staleness(Protocol):
    """A rule that keeps old parameters and hands out the ones that acted.

    For developers. A new rule is one file in this folder (or a module of yours) with a frozen (hashable) dataclass
    under `@register_staleness("its_name")`. It has

    - `model`: its letter or name in tables; `smallest_interval`: the least refresh interval it allows;
    - `whole_interval`: True if the refresh interval is a whole number of steps, False if it is real;
    - `block_synchronous`: True if behaviour policy and state change only where t mod N = 0 (it is then not always asked
      in between);
    - `horizon_for(interval)`: steps that have to be remembered for refresh intervals up to this one (static);
    - `init(theta, horizon)`: the state before step 0, a pytree of arrays whose parameters are all theta. Here and in
      `behaviour`, theta may be [D] or, where many seeds run side by side, [D, L];
    - `behaviour(state, theta, step, interval, key)`: (parameters that act at this step, next state); `interval` is
      traced; a rule that draws something consumes `key`, the others do without one; where several policies act at once
      their parameters come as a `Mixture`, over which the gradient is averaged (then `averages` is True);
    - if it draws something, `recall(state, theta, step, interval, uniform)`: the same with theta [D, L] and a random
      number in [0, 1) per run [L] in place of a key; without it only the reference path runs, and the rule says
      `drawn = True` of itself;
    - if it draws ages, `averaged()`: (the rule that averages over the same ages, how many are drawn in an update). The
      threshold of the mean square follows from it;
    - `period(interval)`: steps after which the rule repeats itself, ValueError with the reason where it never does
      (it then has no multipliers and no onset of oscillation); `rewind(state, steps)`: the state as it would be had the
      last `steps` steps (one period) not been counted. So one period maps states at step 0 to states at step 0;
      Floquet multipliers are those of this map.
    """

    model: str
    smallest_interval: int
    whole_interval: bool
    block_synchronous: bool
    averages: bool = False
    recall: Any = None
    averaged: Any = None

    @property
    def drawn(self) -> bool:
        """True if ages are drawn."""
        return self.recall is not None

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


class Snapshots(Staleness):
    """Base of rules that keep snapshots of block starts: no history, no clock."""

    smallest_interval = 1
    block_synchronous = True
    whole_interval = True

    def horizon_for(self, interval: float) -> int:
        """None: snapshots are kept, not a history."""
        return 0

    def period(self, interval: int) -> int:
        """One block."""
        return interval

    def rewind(self, state: Any, steps: int) -> Any:
        """Nothing to do: snapshots carry no clock."""
        return state


class Ring(Staleness):
    """Base of rules that look back: a ring of the last horizon + 1 parameters [horizon + 1, D]."""

    smallest_interval = 0
    block_synchronous = False

    def init(self, theta: Array, horizon: int) -> Array:
        """A ring filled with theta_0."""
        return jnp.broadcast_to(theta, (horizon + 1, *theta.shape))

    def recalled(self, state: Array, theta: Array, step: Array, age: Array) -> tuple[Array, Array]:
        """(the parameters of `age` steps ago, next state): one run and its age, or many side by side with theirs [L].

        Ages are at most the horizon. The ring is read before it is written, and what is written depends on what was
        read: written first, XLA would look the new entry up for every one that is read, and without an order it would
        copy the ring.
        """
        length, age = state.shape[0], materialize(age)
        place = step % length - age
        place = jnp.where(place < 0, place + length, place)
        if theta.ndim == 1:
            old = lax.dynamic_index_in_dim(state, place, 0, keepdims=False)
        else:
            old = row_of_each(state, materialize(place))
        written = jnp.where(age < 0, old, theta)
        return jnp.where(age == 0, theta, old), lax.dynamic_update_index_in_dim(state, written, step % length, 0)

    def rewind(self, state: Array, steps: int) -> Array:
        """The ring turned back: what was written at step t stands where step t - steps would have written it."""
        return jnp.roll(state, -steps, axis=0)


STALENESS: Registry[Staleness] = Registry(
    "staleness",
    (
        *("model", "smallest_interval", "whole_interval", "block_synchronous"),
        *("horizon_for", "init", "behaviour", "period", "rewind"),
    ),
    base=Staleness,
)
register_staleness = STALENESS.register
