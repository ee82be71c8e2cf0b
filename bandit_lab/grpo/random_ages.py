"""A fourth meaning of "refresh interval": the policy that acts has a random age, geometric, P(age = k) = (1-q) q^k.

The refresh interval is the mean age q/(1-q), a real number >= 0; q = N/(N+1). Ages beyond the (static) horizon of the
learner count as the horizon; `horizon_for` chooses it so that less than 2e-7 of them do. A policy older than the run is
theta_0. Two rules share this law:

    random       one age is drawn at every step, for the whole batch
    random_mean  the gradient is averaged over all ages, sum_k P(age = k) g(theta_t, theta_{t-k})

The mean of the first, given the past, is the second; but the first multiplies by random matrices, and its stability is
another matter.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from bandit_lab._types import Array

_HORIZON = 16.0  # in units of mean age + 1: q^(16 (N + 1)) <= e^-16


class Mixture(NamedTuple):
    """Several policies that act at once: parameters [M, D] and their shares [M], of sum 1."""

    theta: Array
    share: Array


def draw_age(key: Array, mean_age: Array, horizon: int) -> Array:
    """One age, int32 in 0..horizon, from the geometric law of the given mean. `key` is consumed."""
    mean = jnp.asarray(mean_age)
    uniform = jax.random.uniform(key, (), mean.dtype)
    steps = jnp.log1p(-uniform) / jnp.log(mean / (1 + mean))
    return jnp.minimum(jnp.floor(steps), horizon).astype(jnp.int32)


def age_shares(mean_age: Array, horizon: int) -> Array:
    """P(age = k) for k = 0..horizon [horizon + 1], the last holding all that is older."""
    ages = jnp.arange(horizon + 1)
    q = mean_age / (1 + mean_age)
    return jnp.where(ages == horizon, 1, 1 - q) * q**ages


@dataclass(frozen=True)
class _Ages:
    """What both rules share. State: a ring of the last horizon + 1 parameters [horizon + 1, D]."""

    smallest_interval: int = 0
    block_synchronous: bool = False
    whole_interval: bool = False

    def horizon_for(self, interval: float) -> int:
        """Oldest age that is kept apart."""
        return math.ceil(_HORIZON * (interval + 1)) if interval > 0 else 0

    def init(self, theta: Array, horizon: int) -> Array:
        """A ring filled with theta_0."""
        return jnp.tile(theta, (horizon + 1, 1))

    def rewind(self, state: Array, steps: int) -> Array:
        """The ring turned back."""
        return jnp.roll(state, -steps, axis=0)


@dataclass(frozen=True)
class Random(_Ages):
    """A geometric age drawn at every step."""

    model: str = "random"

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array, Array]:
        """The entry written a random number of steps ago. `key` is consumed."""
        if key is None:
            raise ValueError("key: expected one, to draw an age from, got None")
        length = state.shape[0]
        state = state.at[step % length].set(theta)
        age = draw_age(key, interval, length - 1)
        return state[(step - age) % length], state

    def period(self, interval: float) -> int:
        """None: the ages are drawn. Raises ValueError."""
        raise ValueError("staleness: expected a rule that repeats itself, got random (its ages are drawn)")


@dataclass(frozen=True)
class RandomMean(_Ages):
    """All ages at once, weighted by their geometric chances: the mean of `Random` given the past."""

    model: str = "random_mean"

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Mixture, Array]:
        """Every entry of the ring with the chance of its age."""
        length = state.shape[0]
        state = state.at[step % length].set(theta)
        ages = (step - jnp.arange(length)) % length
        return Mixture(state, age_shares(interval, length - 1)[ages]), state

    def period(self, interval: float) -> int:
        """One step."""
        return 1
