"""Two rules that the package does not have, as plug-ins: a random age, geometric, P(age = k) = (1-q) q^k.

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

import jax
import jax.numpy as jnp
from jax import lax

from bandit_lab._numerics import log
from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import Mixture, Ring, register_staleness

_HORIZON = 16.0  # in units of mean age + 1: q^(16 (N + 1)) <= e^-16


def age_at(uniform: Array, mean_age: Array, horizon: int) -> Array:
    """The ages that random numbers in [0, 1) stand for, int32 of their shape: the geometric law inverted."""
    steps = log(1 - uniform) * (1 / jnp.log(mean_age / (1 + mean_age)))
    return jnp.minimum(jnp.floor(steps), horizon).astype(jnp.int32)


def age_shares(mean_age: Array, horizon: int) -> Array:
    """P(age = k) for k = 0..horizon [horizon + 1], the last holding all that is older."""
    ages = jnp.arange(horizon + 1)
    q = mean_age / (1 + mean_age)
    return jnp.where(ages == horizon, 1, 1 - q) * q**ages


@dataclass(frozen=True)
class _Ages(Ring):
    """What both rules share. State: a ring of the last horizon + 1 parameters [horizon + 1, D]."""

    whole_interval = False

    def horizon_for(self, interval: float) -> int:
        """Oldest age that is kept apart."""
        return math.ceil(_HORIZON * (interval + 1)) if interval > 0 else 0


@register_staleness("random")
@dataclass(frozen=True)
class Random(_Ages):
    """A geometric age drawn at every step."""

    model = "random"

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array, Array]:
        """The entry written a random number of steps ago. `key` is consumed."""
        if key is None:
            raise ValueError("key: expected one, to draw an age from, got None")
        mean = jnp.asarray(interval, jnp.result_type(interval, theta.dtype))
        return self.recall(state, theta, step, mean, jax.random.uniform(key, (), mean.dtype))

    def recall(self, state: Array, theta: Array, step: Array, interval: Array, uniform: Array) -> tuple[Array, Array]:
        """`behaviour` of one run, or of many side by side, with its random number in [0, 1): scalar, or [L]."""
        return self.recalled(state, theta, step, age_at(uniform, interval, state.shape[0] - 1))

    def period(self, interval: float) -> int:
        """None: the ages are drawn. Raises ValueError."""
        raise ValueError("staleness: expected a rule that repeats itself, got random (its ages are drawn)")

    def averaged(self) -> "tuple[RandomMean, int]":
        """(the rule that averages over the same ages, how many of them are drawn in an update)."""
        return RandomMean(), 1


@register_staleness("random_mean")
@dataclass(frozen=True)
class RandomMean(_Ages):
    """All ages at once, weighted by their geometric chances: the mean of `Random` given the past."""

    model = "random_mean"
    averages = True

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Mixture, Array]:
        """Every entry of the ring with the chance of its age."""
        length = state.shape[0]
        state = lax.dynamic_update_index_in_dim(state, theta, step % length, 0)
        ages = (step - jnp.arange(length)) % length
        return Mixture(state, age_shares(interval, length - 1)[ages]), state

    def period(self, interval: float) -> int:
        """One step."""
        return 1
