"""Any distribution of ages: what an asynchronous trainer has, whose batches mix answers of many policies.

    staleness=ages staleness.weights=[0.5,0.3,0.2]        chances of the ages 0, 1, 2, ...
    staleness=ages staleness.law=poisson staleness.mean=2.5
    staleness=ages staleness.counts=ages.csv              counted in a run: a column age and a column count, or JSON

Ages are counted in refresh intervals: age a is a N steps (so that weights [0, 1] are model B). A policy older than the
run is theta_0. `draws` says how a batch is made: null, every update averages over all ages (many groups of each);
B, every update has B groups whose ages are drawn one by one.
"""

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo.staleness.base import Mixture, Ring, register_staleness

OLDEST = 4096
"""Largest age; every one needs a copy of the parameters of each run."""
_TAIL = 1e-9
"""Share of a law without an end that its oldest age stands for."""
LAWS = ("uniform", "geometric", "poisson", "truncated")


@dataclass(frozen=True)
class MixedAges(Ring):
    """All ages at once, `shares` [S + 1] of the ages 0..S: the gradient is averaged over them."""

    shares: tuple[float, ...]
    model = "ages"
    smallest_interval = 1
    whole_interval = True
    averages = True

    @property
    def mean_age(self) -> float:
        """Mean age, refresh intervals."""
        return float(np.arange(len(self.shares)) @ np.asarray(self.shares))

    def horizon_for(self, interval: float) -> int:
        """The largest age, steps. Raises ValueError for one above 4096."""
        oldest = (len(self.shares) - 1) * int(interval)
        _checks.require(oldest <= OLDEST, "refresh_interval", f"a largest age of at most {OLDEST} steps", oldest)
        return oldest

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array | Mixture, Array]:
        """The entries of all ages with their shares."""
        length = state.shape[0]
        state = lax.dynamic_update_index_in_dim(state, theta, step % length, 0)
        old = state[(step - jnp.arange(len(self.shares)) * interval) % length]
        return Mixture(old, jnp.asarray(self.shares, theta.dtype)), state

    def period(self, interval: float) -> int:
        """One step."""
        return 1


@dataclass(frozen=True)
class DrawnAges(MixedAges):
    """`draws` groups in every update, each of a policy whose age is drawn from the same `shares`."""

    draws: int
    drawn = True

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array | Mixture, Array]:
        """The entries written random numbers of steps ago. `key` is consumed."""
        length = state.shape[0]
        state = lax.dynamic_update_index_in_dim(state, theta, step % length, 0)
        old = state[(step - self._ages(self._uniform(key)) * interval) % length]
        return Mixture(old, jnp.full(self.draws, 1 / self.draws, theta.dtype)), state

    def _uniform(self, key: Array | None) -> Array:
        if key is None:
            raise ValueError("key: expected one, to draw ages from, got None")
        return jax.random.uniform(key, (self.draws,), jnp.float32)

    def _ages(self, uniform: Array) -> Array:
        below = jnp.asarray(np.cumsum(self.shares)[:-1], uniform.dtype)
        return jnp.sum(uniform[..., None] >= below, axis=-1).astype(jnp.int32)

    def period(self, interval: float) -> int:
        """None: the ages are drawn. Raises ValueError."""
        raise ValueError("staleness: expected a rule that repeats itself, got ages (they are drawn)")

    def averaged(self) -> tuple[MixedAges, int]:
        """(the rule that averages over the same ages, how many of them are drawn in an update)."""
        return MixedAges(self.shares), self.draws


@dataclass(frozen=True)
class OneDrawnAge(DrawnAges):
    """The same with one age for the whole batch, which the fast path has too."""

    draws: int = 1
    averages = False

    def behaviour(
        self, state: Array, theta: Array, step: Array, interval: Array, key: Array | None = None
    ) -> tuple[Array | Mixture, Array]:
        """The entry written a random number of steps ago. `key` is consumed."""
        return self.recall(state, theta, step, interval, self._uniform(key)[0])

    def recall(self, state: Array, theta: Array, step: Array, interval: Array, uniform: Array) -> tuple[Array, Array]:
        """`behaviour` of one run, or of many side by side, with its random number in [0, 1): scalar, or [L]."""
        return self.recalled(state, theta, step, self._ages(uniform) * interval)


@register_staleness("ages")
def ages(
    weights: Any = None,
    law: str | None = None,
    mean: float | None = None,
    maximum: int | None = None,
    counts: str | None = None,
    draws: int | None = None,
) -> MixedAges:
    """Any distribution of ages: `weights` of the ages 0, 1, ..., a `law`, or `counts` from a file.

    law: uniform (0..`maximum`), geometric or poisson (of this `mean`), truncated (geometric of this `mean`, ages above
    `maximum` drawn again). Without any of them: uniform on 0 and 1. draws: null, averaged over all ages; B: of so many
    groups an update, each with an age of its own. Raises ValueError for weights that are negative or do not sum to 1,
    an age above 4096, several distributions.
    """
    if law is not None:
        _checks.choice("staleness.law", law, LAWS)
    given = {"weights": weights, "law": law, "counts": counts}
    several = [name for name, value in given.items() if value is not None]
    _checks.require(len(several) < 2, "staleness", "one of weights, law and counts", " and ".join(several))
    for name, value, laws in (("mean", mean, LAWS[1:]), ("maximum", maximum, (None, "uniform", "truncated"))):
        fits = value is None or (law in laws and weights is None and counts is None)
        _checks.require(fits, f"staleness.{name}", f"nothing but with law={', '.join(filter(None, laws))}", value)
    if weights is not None:
        shares = _weights(weights)
    elif counts is not None:
        shares = _counted(counts)
    else:
        shares = _of_law(law or "uniform", mean, 1 if law is None and maximum is None else maximum)
    if draws is None:
        return MixedAges(shares)
    number = _checks.integer("staleness.draws", draws, 1)
    return OneDrawnAge(shares) if number == 1 else DrawnAges(shares, number)


def _weights(weights: Any) -> tuple[float, ...]:
    shares = np.asarray(_checks.numbers("staleness.weights", weights), float)
    _checks.require(shares.size <= OLDEST + 1, "staleness.weights", f"at most {OLDEST + 1}", shares.size)
    good = shares.size > 0 and bool(np.all(shares >= 0)) and abs(shares.sum() - 1) <= 1e-6
    _checks.require(good, "staleness.weights", "numbers >= 0 that sum to 1, of the ages 0, 1, ...", list(weights))
    return _trimmed(shares)


def _trimmed(shares: np.ndarray) -> tuple[float, ...]:
    last = int(np.flatnonzero(shares)[-1])
    return tuple(float(x) for x in shares[: last + 1] / shares.sum())


def _of_law(law: str, mean: float | None, maximum: int | None) -> tuple[float, ...]:
    if law in ("uniform", "truncated"):
        _checks.require(maximum is not None, "staleness.maximum", f"the largest age, with law={law}", maximum)
        last = _checks.integer("staleness.maximum", maximum, 0)
        _checks.require(last <= OLDEST, "staleness.maximum", f"at most {OLDEST}", last)
        if law == "uniform":
            return (1 / (last + 1),) * (last + 1)
    _checks.require(mean is not None, "staleness.mean", f"a mean age, with law={law}", mean)
    mean = _checks.non_negative("staleness.mean", mean)
    if mean == 0:
        return (1.0,)
    age = np.arange(OLDEST + 2)
    if law == "poisson":
        chance = np.exp(age * math.log(mean) - mean - np.array([math.lgamma(a + 1) for a in age]))
    else:
        chance = (mean / (1 + mean)) ** age / (1 + mean)
    if law != "truncated":
        last = int(np.searchsorted(np.cumsum(chance), 1 - _TAIL))
        _checks.require(last <= OLDEST, "staleness.mean", f"a law whose ages stay below {OLDEST}", mean)
    return _trimmed(chance[: last + 1])


def _counted(path: str) -> tuple[float, ...]:
    """The shares of counted ages. Raises ValueError for a file that does not hold them."""
    what = "a file of counts by age: CSV with columns age and count, JSON list of counts or mapping age -> count"
    try:
        text = Path(path).read_text(encoding="utf-8")
        if text.lstrip()[:1] in ("[", "{"):
            read = json.loads(text)
            pairs = list(enumerate(read)) if isinstance(read, list) else [(int(k), v) for k, v in read.items()]
        else:
            pairs = [(int(row["age"]), float(row["count"])) for row in csv.DictReader(text.splitlines())]
        pairs = [(age, float(count)) for age, count in pairs]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"staleness.counts: expected {what}, got {path!r} ({error})") from None
    good = all(0 <= age <= OLDEST and count >= 0 for age, count in pairs) and sum(c for _, c in pairs) > 0
    _checks.require(good, "staleness.counts", f"ages from 0 to {OLDEST} and counts >= 0, not all 0", path)
    counts = np.zeros(max(age for age, _ in pairs) + 1)
    for age, count in pairs:
        counts[age] += count
    return _trimmed(counts)
