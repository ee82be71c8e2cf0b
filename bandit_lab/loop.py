"""The linear map of one period of training, for every staleness rule and optimiser: no variant's name stands here.

Near a fixed point the mean gradient is -(H_fresh x + H_stale b): x is the displacement of the parameters, b that of
the policy that acts. A staleness rule hands b out, an optimiser turns gradients into steps, both linearly. The matrices
of one component of either are derivatives of its own methods:

    rule       (x, s) -> (b, s')      `behaviour`, and `rewind` at the end of a period
    optimiser  (u, m) -> (dx, m')     `update`, u being a gradient of the loss

Kronecker products with the stiffness give the map of one step on (x, m, s), and their product that of a period. Its
eigenvalues are the multipliers. Where the two parts of the stiffness share their eigenvectors, every mode has a loop of
its own.

A rule that repeats itself at every step is a filter, b_t = sum_k q_k x_{t-k}; its response q is the derivative of a
run of it. With Q(z) = sum_k q_k z^-k, and o(z) the optimiser's response at learning rate 1, multipliers are where
(z - 1) - eta o(z) (H_fresh + Q(z) H_stale) is singular. For one mode 1/eta = o (H_fresh + Q H_stale)/(z - 1): real on
the unit circle at a threshold; along the real axis below 1 a mode rings from the first maximum of eta. This needs no
matrix of the lag's size. An optimiser that is not linear near rest is differentiated as a whole, its second moment
frozen (`measure.block`). Derived here.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bandit_lab._numerics import dominant, ordered
from bandit_lab._root import first_beyond, root
from bandit_lab.grpo import Learner, Mixture
from bandit_lab.measure.frozen_moment import FAR
from bandit_lab.measure.period_jacobian import Kind

SEARCHED, COUNTED = 1024, 128
"""Largest refresh interval that is looked at, and that whose multipliers are counted."""
LARGEST_MAP = 600
"""Size of a period's map from which on its eigenvalues take seconds."""
_REAL = 1e-8  # imaginary part of a multiplier over its modulus that is rounding
_FELT = 1e-15  # of a stiffness, up to which it is rounding
_SPLIT = 1e-12  # what the parts of a stiffness may miss of common eigenvectors
_LINEAR = 1e-9  # relative; up to which an optimiser is linear
_PER_DECADE = 48  # points of a scan
_MOST_ANGLES = 2**20
_LONGEST_STEP = 0.05  # of a learning rate, along which multipliers are followed
_NEAR_ONE = 0.05  # up to which they are told apart at a step of any length
_GONE = 1e-13  # a multiplier that has fallen to 0


class Reason(StrEnum):
    """Why there is no number, or why it is 0."""

    DRAWN = "ages drawn at every step multiply by random matrices; their average has multipliers"
    REPELS = "the fixed point repels at every learning rate"
    STABLE = "stable up to the end of the scan"
    NO_RINGING = "no oscillation up to the end of the scan"
    COMPLEX = "the stiffness is complex (the drift is no gradient): a displacement turns at every learning rate"
    TOO_LARGE = f"its map is larger than {LARGEST_MAP}: a shorter memory, or fewer arms, has multipliers"
    UNSTABLE = "no stationary state beyond the stability threshold"
    NO_BLOCKS = "batch_reuse: expected false, the rule has no blocks to reuse a batch in"
    NOT_LINEAR = "no linear theory of the optimiser: it is not linear near rest"
    NOT_SEARCHED = "not searched: the interval of this rule is neither that of a block nor a lag"
    NOT_STALE = "one number only where the whole stiffness is stale and its modes do not see each other"
    AGES = "the published law has one interval, not ages"
    NO_LAG = "the published law has no bound at refresh interval 0"
    OVERDAMPED = "the oscillator is overdamped at every learning rate"


class RateCrossing(NamedTuple):
    """A learning rate at which something begins, how stability is lost there, or why there is none.

    0 with a reason: at every learning rate.
    """

    value: float | None
    kind: Kind | None = None
    reason: str | None = None


def _kind_of(multiplier: complex) -> Kind:
    """`neimark_sacker`: a complex pair; else `flip` (over an even number of steps a flip is +1)."""
    return "neimark_sacker" if abs(multiplier.imag) > _REAL * abs(multiplier) else "flip"


# --------------------------------------------------------------------------------------------- the rule's own matrices


class LinearRule(NamedTuple):
    """One component of a staleness rule. runs: matrices [1 + S, 1 + S] of (x, s) -> (b, s'), each with the number of
    steps for which it holds, over one period. shares: [A + 1] of the ages, where it is a filter. noise: variance of an
    update's noise over that of one policy's groups, mean over the period."""

    runs: tuple[tuple[np.ndarray, int], ...]
    shares: np.ndarray | None
    noise: tuple[float, ...]

    @classmethod
    def of_ages(cls, shares: np.ndarray, noise: float = 1.0) -> "LinearRule":
        """A filter: (x_t, x_{t-1}, ..., x_{t-A}) -> (b, x_t, ..., x_{t-A+1}) for shares [A + 1] of the ages."""
        full = np.eye(len(shares), k=-1)
        full[0] = shares
        return cls(((full, 1),), shares, (noise,))

    @property
    def period(self) -> int:
        """Steps after which it repeats itself."""
        return sum(count for _, count in self.runs)

    @property
    def memory(self) -> int:
        """S."""
        return len(self.runs[0][0]) - 1

    @property
    def ages(self) -> np.ndarray:
        """Mean age [period] of what acts at every step, from what acts on a ramp."""
        if self.shares is not None:
            return np.array([np.arange(len(self.shares)) @ self.shares])
        steps, state = [one for one, count in self.runs for _ in range(count)], np.zeros(self.memory)
        mean_ages: list[float] = []
        for _ in range(3 + self.memory // self.period):
            mean_ages.clear()
            for at, one in enumerate(steps):
                acting, *state = one @ np.append(at, state)
                mean_ages.append(at - acting)
            state = np.asarray(state) - self.period  # the next period counts from 0 again
        return np.round(mean_ages, 9)


def _floats(tree: Any) -> tuple[jax.Array, Callable[[Any], Any]]:
    """(vector of the real leaves, function that puts such a vector back)."""
    leaves, form = jax.tree.flatten(tree)
    real = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating)]
    vector, back = ravel_pytree([jnp.asarray(leaves[i], float) for i in real])

    def rebuilt(vector: Any) -> Any:
        new = list(leaves)
        for i, leaf in zip(real, back(vector), strict=True):
            new[i] = leaf
        return jax.tree.unflatten(form, new)

    return vector, rebuilt


def _acting(rule: Any, state: Any, theta: Any, step: Any, interval: Any) -> tuple[Any, Any, Any]:
    """(parameters that act, next state, sum of the squares of their shares)."""
    acting, after = rule.behaviour(state, theta, step, interval, None)
    if isinstance(acting, Mixture):
        return acting.share @ acting.theta, after, jnp.sum(acting.share**2)
    return acting, after, jnp.ones(())


_quickly: Any = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})  # for what runs once


@partial(_quickly, static_argnames=("rule", "horizon"))
def _response(rule: Any, horizon: int, interval: Any) -> Any:
    """(what acts [T], the state's slope at the end, noise [T]) after a displacement at step 0 alone."""

    def run(size: Any) -> Any:
        def step(state: Any, at: Any) -> Any:
            b, after, noise = _acting(rule, state, jnp.where(at == 0, size, 0.0)[None], at, interval)
            return after, (b[0], noise)

        end, (seen, noise) = jax.lax.scan(step, rule.init(jnp.zeros(1), horizon), jnp.arange(horizon + 4))
        return (seen, _floats(end)[0]), noise

    _, (seen, left), noise = jax.jvp(run, (jnp.zeros(()),), (jnp.ones(()),), has_aux=True)
    return seen, left, noise


@partial(_quickly, static_argnames=("rule", "horizon"))
def _steps(rule: Any, horizon: int, steps: Any, interval: Any) -> Any:
    """Matrices [T, 1 + S, 1 + S] at these steps [T], and noise [T]: a component of parameters for each column."""
    columns = np.eye(1 + _floats(rule.init(jnp.zeros(1), horizon))[0].size)
    back = _floats(rule.init(jnp.zeros(len(columns)), horizon))[1]

    def one(step: Any) -> Any:
        acting, after, noise = _acting(rule, back(columns[1:].ravel()), columns[0], step, interval)
        return jnp.vstack([acting, _floats(after)[0].reshape(-1, len(columns))]), noise

    return jax.vmap(one)(steps)


@lru_cache(maxsize=4096)
def _rule_of(rule: Any, interval: float, horizon: int) -> LinearRule:
    """The matrices of a staleness rule that remembers `horizon` steps. ValueError where it never repeats itself."""
    period = int(rule.period(interval))
    typed = np.asarray(interval, np.int32 if rule.whole_interval else float)
    blocks = period == interval and rule.block_synchronous  # within a block nothing but its first step differs
    if period == 1 and not blocks:
        seen, left, noise = (np.asarray(part) for part in _response(rule, horizon, typed))
        if not np.any(left):
            return LinearRule.of_ages(np.trim_zeros(seen, "b") if np.any(seen) else seen[:1], float(noise[-1]))
    steps = np.arange(2 if blocks else period)
    matrices, noise = (np.array(part) for part in _steps(rule, horizon, steps, typed))
    if blocks:
        runs = ((matrices[0], 1), (matrices[1], period - 1))[: 1 + (period > 1)]
        return LinearRule(runs, None, (noise[0], *noise[1:].repeat(period - 1)))
    start, back = _floats(rule.init(jnp.zeros(1), horizon))
    if start.size:
        turned = jax.vmap(lambda v: _floats(rule.rewind(back(v), period))[0], 1, 1)(jnp.eye(start.size))
        matrices[-1, 1:] = np.asarray(turned) @ matrices[-1, 1:]  # one period maps states at step 0 to states at step 0
    starts = [0, *(np.flatnonzero(np.any(matrices[1:] != matrices[:-1], axis=(1, 2))) + 1), period]
    return LinearRule(tuple((matrices[a], int(b - a)) for a, b in pairwise(starts)), None, tuple(noise))


# ---------------------------------------------------------------------------------------- the optimiser's own matrices


@dataclass(frozen=True)
class _Response:
    """One component of an optimiser near rest.

    unit: [1 + M, 1 + M] of (u, m) -> (dx, m') at learning rate 1. slope: the same as a function of the learning rate,
    for an optimiser whose step is not proportional to it, else None.
    """

    unit: np.ndarray
    slope: Callable[[float], np.ndarray] | None = None

    def at(self, rates: np.ndarray) -> np.ndarray:
        """[E, 1 + M, 1 + M] at learning rates [E]."""
        if self.slope is not None:
            return np.stack([self.slope(float(rate)) for rate in rates])
        full = np.repeat(self.unit[None], len(rates), axis=0)
        full[:, 0] *= rates[:, None]
        return full

    @cached_property
    def fraction(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of 1, 1/z, ... of the numerator and of the denominator of o(z)."""
        inner, row, column = self.unit[1:, 1:], self.unit[0, 1:], self.unit[1:, 0]
        if not len(inner):
            return self.unit[0], np.ones(1)
        bottom = np.poly(inner)
        return self.unit[0, 0] * bottom + np.poly(inner - np.outer(column, row)) - bottom, bottom

    def transfer(self, z: np.ndarray) -> np.ndarray:
        """o(z) [...], the step per unit of a loss gradient that goes as z^t, at learning rate 1."""
        with np.errstate(all="ignore"):
            top, bottom = (np.polynomial.polynomial.polyval(1 / z, part) for part in self.fraction)
            return np.asarray(top / bottom)

    @cached_property
    def inertia(self) -> tuple[float, float, float]:
        """(A, M, a): mass M/eta and damping A/eta - K (lag - a) of the oscillator that the optimiser makes of one mode.

        With o(z) = -n(1/z)/d(1/z) and z = 1 + s the loop is s d = -eta K n z^-lag. Slopes in s at s = 0 give
        A = d/n, M = d'/n, a = n'/n. Heavy ball: 1 - mu, mu, 0.
        """
        top, bottom = -self.fraction[0], self.fraction[1]
        order = np.arange(len(bottom))
        unit = float(top.sum())
        return float(bottom.sum()) / unit, -float(order @ bottom) / unit, -float(order @ top) / unit


_COMPONENTS = 3  # that an optimiser is tried on


@lru_cache(maxsize=64)
def _tried(optimizer: Any) -> Callable[..., tuple[np.ndarray, ...]]:
    """(learning rates, momentum) -> of an update at each: (slope, what a linear one leaves of value and slopes at 0).

    The vector is the gradient and all that the optimiser remembers of it. One derivative is compiled for all of them.
    """
    size, start = _COMPONENTS, np.linspace(0.3, 0.7, _COMPONENTS)

    def remembered(rate: Any, mu: Any) -> Any:
        return _floats(jax.tree.map(_stands, optimizer.build(rate, mu).init(jnp.asarray(start))))

    def moved(rate: Any, mu: Any, v: Any, theta: Any) -> Any:
        change, after = optimizer.build(rate, mu).update(v[:size], remembered(rate, mu)[1](v[size:]), theta)
        return jnp.concatenate([change, _floats(after)[0]])

    def along(rate: Any, mu: Any, v: Any, turned: Any, shifted: Any) -> Any:
        return jax.jvp(partial(moved, rate, mu), (v, jnp.asarray(start)), (turned, shifted))

    every = _quickly(jax.vmap(jax.vmap(along, (None, None, 0, 0, 0)), (0, None, None, None, None)))
    width = size + jax.eval_shape(lambda: remembered(1.0, 0.5)[0]).size
    scales, near = np.array([[1e-3], [1e-6]]), np.random.default_rng(0).standard_normal(width)
    places = np.concatenate([np.zeros((width + 1, width)), scales * near])
    shifts = np.zeros((width + 3, size))
    shifts[width] = 1

    def looked(rates: np.ndarray, mu: float) -> tuple[np.ndarray, np.ndarray]:
        seen, slopes = map(np.asarray, every(rates, np.float64(mu), places, np.eye(width + 3, width), shifts))
        slope, rest = np.swapaxes(slopes[:, :width], 1, 2), seen[:, 0]
        missed = (seen[:, -2:] - rest[:, None]) / scales - (slope @ near)[:, None]
        return slope, np.concatenate([rest, slopes[:, width], *np.swapaxes(missed * 1e-3, 0, 1)], axis=-1)

    return looked


@lru_cache(maxsize=256)
def response_of(optimizer: Any, momentum: float) -> _Response | None:
    """The matrices of an optimiser at a momentum; None where it is not linear near rest, component by component."""
    size, rates, tried = _COMPONENTS, np.array([1.0, 2.0, 0.37]), _tried(optimizer)
    units = []
    for slope, missing in zip(*tried(rates, momentum), strict=True):
        if len(slope) % size or not np.isfinite(slope).all():
            return None
        units.append(slope[::size, ::size])
        apart, scale = np.append(missing, slope - np.kron(units[-1], np.eye(size))), _LINEAR * np.abs(slope).max()
        if not (scale > 0 and np.abs(apart).max() <= scale):
            return None
    answer, z = _Response(units[0]), np.array([1.7, -1.3, 0.4 + 1.2j])
    for unit, rate in zip(units[1:], rates[1:], strict=True):
        if not np.allclose(_Response(unit).transfer(z), rate * answer.transfer(z), rtol=_LINEAR, atol=0):
            return _Response(units[0], lambda rate: tried(np.array([rate]), momentum)[0][0][::size, ::size])
    return answer


def _stands(leaf: Any) -> Any:
    """Counters stand at a count at which every bias correction is off."""
    counts = jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.integer) and jnp.ndim(leaf) == 0
    return jnp.asarray(FAR, jnp.asarray(leaf).dtype) if counts else leaf


# ------------------------------------------------------------------------------------------------------------ the loop


@dataclass(frozen=True, eq=False)
class Loop:
    """The linear loop at a fixed point, for every learning rate.

    fresh, stale: [R, R] minus the derivatives of the mean gradient by the current and by the acting policy, reward per
    logit^2. interval: N, steps. blocks: whether a batch can be reused within a period. given_ages: whether the rule has
    a distribution of ages in whole steps, a mean and a largest, not one interval. draws: how many of the ages every
    update draws, where they are not averaged.
    """

    fresh: np.ndarray
    stale: np.ndarray
    rule: LinearRule
    optimizer: _Response
    interval: float
    blocks: bool = False
    given_ages: bool = False
    draws: int | None = None

    @cached_property
    def spectrum(self) -> np.ndarray:
        """Eigenvalues [R] of fresh + stale, largest real part first, real where they are."""
        return spectrum(self.fresh + self.stale)

    @property
    def repels(self) -> bool:
        """Whether the on-policy drift itself repels."""
        return bool(self.spectrum.real.min() <= 0)

    @property
    def largest(self) -> float:
        """The largest stiffness, K of the law."""
        return float(self.spectrum[0].real)

    @property
    def lag(self) -> float:
        """Lag of the leading-order oscillator [steps]: the interval, or the mean of given ages."""
        return float(self.rule.ages.mean()) if self.given_ages else self.interval

    def oscillator(self, rate: float, lag: float) -> tuple[float, float, float]:
        """Mass M/eta, damping A/eta - K (lag - a) and stiffness K of the stiffest mode, to first order in the lag."""
        law, inertia, ahead = self.optimizer.inertia
        return inertia / rate, law / rate - self.largest * (lag - ahead), self.largest

    @property
    def _no_law(self) -> Reason | None:
        return Reason.REPELS if self.largest <= 0 else Reason.AGES if self.given_ages else None

    @property
    def law(self) -> RateCrossing:
        """Leading order: K eta N = 1 - mu in the heavy-ball convention, A in place of 1 - mu in others."""
        if reason := self._no_law or (None if self.interval else Reason.NO_LAG):
            return RateCrossing(None, None, reason)
        return RateCrossing(self.optimizer.inertia[0] / (self.interval * self.largest))

    @property
    def oscillator_onset(self) -> RateCrossing:
        """Where the oscillator with the lag N stops being overdamped.

        gamma^2 = 4 m K with gamma = A/eta - K n, m = M/eta (n = N - a): the smaller root of
        (A - kappa n)^2 = 4 M kappa, kappa = A^2/(A n + 2 M + 2 sqrt(M^2 + M A n)). Derived here; at mu = 0 it is the
        law kappa N = 1.
        """
        if reason := self._no_law:
            return RateCrossing(None, None, reason)
        law, inertia, ahead = self.optimizer.inertia
        lag = self.interval - ahead
        inside = inertia**2 + inertia * law * lag
        if inside < 0 or (bottom := law * lag + 2 * inertia + 2 * math.sqrt(inside)) <= 0:
            return RateCrossing(None, None, Reason.OVERDAMPED)
        return RateCrossing(law**2 / bottom / self.largest)

    @property
    def undelayed(self) -> RateCrossing:
        """Where the stiffest mode flips if no policy is old."""
        if self.largest <= 0:
            return RateCrossing(None, None, Reason.REPELS)
        return RateCrossing(self.constant_age(0) / self.largest)

    def constant_age(self, age: int) -> float:
        """kappa = eta K at which one mode loses stability where every policy is `age` steps old; it may be infinite."""
        one = LinearRule.of_ages(np.eye(age + 1)[age])
        return Loop(np.zeros((1, 1)), np.ones((1, 1)), one, self.optimizer, age).threshold.value or math.inf

    @cached_property
    def modes(self) -> "tuple[Loop, ...]":
        """Loops of one coordinate each where the two parts share their eigenvectors, else the loop itself."""
        if len(self.fresh) == 1:
            return (self,)
        values, vectors = np.linalg.eig(self.fresh + self.stale)
        if np.linalg.cond(vectors) > 1e6:
            return (self,)
        turned = [np.linalg.solve(vectors, part @ vectors) for part in (self.fresh, self.stale)]
        scale = max(np.abs(one).max() for one in turned)
        if any(np.abs(one - np.diag(np.diag(one))).max() > _SPLIT * scale for one in turned):
            return (self,)
        parts = [np.diag(one) for one in turned]
        if np.abs(values.imag).max() <= _REAL * scale:
            parts = [one.real for one in parts]
        pairs = zip(*parts, strict=True)
        return tuple(replace(self, fresh=np.array([[a]]), stale=np.array([[b]])) for a, b in pairs)

    @property
    def size(self) -> int:
        """Of the period's map of all coordinates together."""
        return len(self.fresh) * len(self.optimizer.unit) + len(self._felt[1]) * self.rule.memory

    @cached_property
    def _felt(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors [R, Q] and [Q, R] of the stale stiffness: only that part of an old policy is felt, and remembered.

        What is remembered and not felt would be multipliers of 0, which one that falls to 0 cannot be told from.
        """
        left, sizes, right = np.linalg.svd(self.stale)
        felt = sizes > _FELT * max(np.linalg.norm(self.fresh, 2), sizes[0])
        return left[:, felt] * sizes[felt], right[felt]

    @property
    def _repeats(self) -> bool:
        """Whether z tells everything: a filter, with steps in proportion to the learning rate."""
        return self.rule.shares is not None and self.optimizer.slope is None

    @property
    def _filter(self) -> bool:
        """One mode of such a loop."""
        return len(self.fresh) == 1 and self._repeats

    @property
    def _leads(self) -> bool:
        """Such a mode whose stiffness is wholly stale: no other multiplier overtakes the one that begins at 1."""
        return self._filter and not np.any(self.fresh)

    def _step(self, one: np.ndarray, optimizer: np.ndarray) -> np.ndarray:
        """Maps [E, n, n] of (x, m, s) in one step, by the rule's matrix at it and the optimiser's [E, 1 + M, 1 + M]."""
        r, memory, (gain, felt) = len(self.fresh), optimizer.shape[1] - 1, self._felt
        eye, split = np.eye(r), (1 + memory) * r
        n = split + (len(one) - 1) * len(felt)
        loss = np.zeros((r, n), np.result_type(self.fresh, self.stale))
        loss[:, :r] = self.fresh + one[0, 0] * self.stale
        loss[:, split:] = np.kron(one[:1, 1:], gain)
        full = np.zeros((len(optimizer), n, n), loss.dtype)
        full[:, :split] = np.einsum("ea,rn->earn", optimizer[:, :, 0], loss).reshape(-1, split, n)
        full[:, :split, r:split] += np.einsum("eij,rs->eirjs", optimizer[:, :, 1:], eye).reshape(
            len(optimizer), split, memory * r
        )
        full[:, :r, :r] += eye
        full[:, split:, :r] = np.kron(one[1:, :1], felt)
        full[:, split:, split:] = np.kron(one[1:, 1:], np.eye(len(felt)))
        return full

    def maps(self, rates: np.ndarray) -> np.ndarray:
        """The map of one period [E, n, n] at learning rates [E]; not finite where it overflows."""
        optimizer, total = self.optimizer.at(np.asarray(rates, float)), None
        with np.errstate(over="ignore", invalid="ignore"):
            for one, count in self.rule.runs:
                power = np.linalg.matrix_power(self._step(one, optimizer), count)
                total = power if total is None else power @ total
        assert total is not None
        return total

    def multipliers(self, rate: float) -> np.ndarray | Reason:
        """Multipliers of one period, largest modulus first."""
        if max(mode.size for mode in self.modes) > LARGEST_MAP:
            return Reason.TOO_LARGE
        every = np.concatenate([ordered(mode.maps(np.array([rate])))[0] for mode in self.modes])
        return every[np.argsort(-np.abs(every), kind="stable")]

    def cycle(self, rate: float) -> float | None:
        """Steps per cycle of the dominant mode, 2 where it changes sign at every step; None where it does not swing.

        Of modes that decay equally fast the stiffest, which turns fastest: momentum has all that ring decay alike. The
        multiplier of a period tells the phase up to whole turns, which a run of the mode through one period counts.
        """
        maps = [(mode, mode.maps(np.array([rate]))[0]) for mode in self.modes]
        if not all(np.isfinite(whole).all() for _, whole in maps):
            return None
        every = [(mode, *np.linalg.eig(whole)) for mode, whole in maps]
        each = [(mode, *one) for mode, values, vectors in every for one in zip(values, vectors.T, strict=True)]
        leads = dominant(np.array([multiplier for _, multiplier, _ in each]))
        one_of_a_pair = [one for one, leading in zip(each, leads, strict=True) if leading and one[1].imag >= 0]
        turned = max(mode._turned(rate, multiplier, vector) for mode, multiplier, vector in one_of_a_pair)
        return None if turned < 1e-12 else 2 * math.pi / turned * self.rule.period

    def _turned(self, rate: float, multiplier: complex, state: np.ndarray) -> float:
        """Radians by which this eigenvector of the map of a period turns in one, whole turns included."""
        exact, counted, r = float(np.angle(multiplier)), 0.0, len(self.fresh)
        if self.rule.period == 1:
            return abs(exact)
        optimizer, state = self.optimizer.at(np.array([rate])), state.astype(complex)
        for one, count in self.rule.runs:
            step = self._step(one, optimizer)[0]
            for _ in range(count):
                before, state = state, step @ state
                counted += float(np.angle(np.vdot(before[:r], state[:r])))
                state = state / np.abs(state).max()
        return abs(exact + 2 * math.pi * round((counted - exact) / (2 * math.pi)))

    def _first(self, of_mode: "Callable[[Loop], RateCrossing]") -> RateCrossing:
        return min(map(of_mode, self.modes), key=lambda one: math.inf if one.value is None else one.value)

    @cached_property
    def threshold(self) -> RateCrossing:
        """The first learning rate at which the largest multiplier has modulus 1."""
        if self.repels:
            return RateCrossing(0.0, None, Reason.REPELS)
        return self._first(lambda mode: mode._on_the_circle() if mode._filter else mode._scanned())

    @property
    def _grid(self) -> np.ndarray:
        scale = max(np.linalg.norm(part, 2) for part in (self.fresh, self.stale, self.fresh + self.stale))
        small = 1e-6
        mean = _Response(self.optimizer.at(np.array([small]))[0]).transfer(np.array(1.0))
        unit = small / (scale * abs(float(mean)))
        low, high = 0.02 * unit / (self.interval + 1), 1e6 * unit
        return np.geomspace(low, high, math.ceil(_PER_DECADE * math.log10(high / low)))

    def _scanned(self) -> RateCrossing:
        if self.size > LARGEST_MAP:
            return RateCrossing(None, None, Reason.TOO_LARGE)
        crossing = first_beyond(lambda rates: ordered(self.maps(rates))[:, 0], self._grid)
        if crossing is None:
            return RateCrossing(None, None, Reason.STABLE)
        rate, multiplier = crossing
        return RateCrossing(rate, _kind_of(multiplier)) if rate else RateCrossing(0.0, None, Reason.REPELS)

    def _inverse(self, z: np.ndarray, aged: np.ndarray) -> np.ndarray:
        """1/eta [...] at a multiplier z [...] of one mode."""
        return np.asarray(self.optimizer.transfer(z) / (z - 1) * (self.fresh[0, 0] + aged * self.stale[0, 0]))

    def _aged(self, z: np.ndarray) -> np.ndarray:
        """Q [...] at points z [...]."""
        assert self.rule.shares is not None
        places = np.flatnonzero(self.rule.shares)
        if len(places) > 8:
            return np.polynomial.polynomial.polyval(1 / z, self.rule.shares)
        return sum((self.rule.shares[k] * z ** -float(k) for k in places), np.zeros_like(z))

    def _on_the_circle(self) -> RateCrossing:
        """The first crossing of a filter: angles at which 1/eta is real and positive, in a scan, and a root in each."""
        assert self.rule.shares is not None
        count = 96 * (len(self.rule.shares) + 1)
        even = np.arange(1, count) * (np.pi / count)
        near = np.geomspace(1e-9, even[0], 96)[:-1]
        angles = np.concatenate([near, even])
        aged = np.concatenate([self._aged(np.exp(1j * near)), np.fft.fft(self.rule.shares, 2 * count)[1:count]])

        def at(angle: float) -> complex:
            z = np.array(np.exp(1j * angle))
            return complex(self._inverse(z, self._aged(z)))

        values = self._inverse(np.exp(1j * angles), aged)
        turns = np.flatnonzero(np.diff(values.imag > 0))
        reach = np.maximum(values.real[turns], values.real[turns + 1])
        crossings: list[tuple[float, Kind]] = []
        for i in turns[(reach > 0) & (reach > 0.5 * reach.max(initial=0))]:
            ends = values.imag[i : i + 2].tolist()  # by the transform: at(angles[i]) has another rounding
            angle = root(lambda angle: at(angle).imag, angles[i], angles[i + 1], ends=ends)
            crossings.append((1 / at(angle).real, "neimark_sacker"))
        flip = complex(self._inverse(np.array(-1.0), self._aged(np.array(-1.0))))
        if flip.real > 0 and abs(flip.imag) <= 1e-6 * flip.real:
            crossings.append((1 / flip.real, "flip"))
        positive = [one for one in crossings if one[0] > 0]
        return RateCrossing(*min(positive)) if positive else RateCrossing(None, None, Reason.STABLE)

    @cached_property
    def onset(self) -> RateCrossing:
        """The learning rate from which on a mode rings, the first that does: its multiplier is complex or negative.

        0, with the reason, where a stiffness is complex: its multipliers always are.
        """
        if self.repels:
            return RateCrossing(None, None, Reason.REPELS)
        if np.iscomplexobj(self.spectrum):
            return RateCrossing(0.0, None, Reason.COMPLEX)
        return self._first(lambda mode: mode._turning() if mode._repeats else mode._ringing())

    def _turning(self) -> RateCrossing:
        """The first maximum of a mode's learning rate along the real axis below 1, the least of all modes.

        At a multiplier z, 1/eta is an eigenvalue of o(z) (H_fresh + Q(z) H_stale)/(z - 1).
        """

        def rates(gap: np.ndarray) -> np.ndarray:
            """[G, R], smallest first; infinite where there is none. Where two modes meet, to be complex beyond, the
            larger rate falls before it: 0 at the first gap beyond, not a number behind."""
            with np.errstate(all="ignore"):
                aged, factor = self._aged(1 - gap), self.optimizer.transfer(1 - gap) / -gap
                values = np.linalg.eigvals(self.fresh / aged[:, None, None] + self.stale)
                values = np.take_along_axis(values, np.argsort(-values.real, axis=-1, kind="stable"), axis=-1)
                met = np.abs(values.imag) > _REAL * np.abs(values).max(axis=-1, keepdims=True)
                rate = 1 / ((factor * aged)[:, None] * values.real)
                rate = np.where(met, np.where(np.cumsum(met, axis=-1) % 2, np.inf, 0.0), rate)
                beyond = np.logical_or.accumulate(met, axis=0)[:-1]
                return np.where(np.pad(beyond, ((1, 0), (0, 0))), np.nan, np.where(rate < 0, np.inf, rate))

        gaps = np.unique(np.concatenate([np.geomspace(1e-12, 1e-2, 600), np.linspace(0, 1, 1201)[1:-1], [1 - 1e-15]]))
        every = rates(gaps)
        least = np.nanmin([np.inf, *(_peak(rates, gaps, every, mode) for mode in range(len(self.fresh)))])
        return RateCrossing(float(least)) if least <= self._grid[-1] else RateCrossing(None, None, Reason.NO_RINGING)

    def _ringing(self) -> RateCrossing:
        """The first learning rate at which a multiplier that begins at 1, one a mode, is complex or negative.

        Their common subspace is followed, in steps that are halved where it is not clear which one goes on as which.
        A window of ringing that is narrower than `_LONGEST_STEP` can be missed.
        """
        if self.size > LARGEST_MAP:
            return RateCrossing(None, None, Reason.TOO_LARGE)
        rate, step, inside = self._grid[0] * 1e-3, 0.0, None
        while rate < self._grid[-1]:
            ahead = rate * (1 + step)
            whole = self.maps(np.array([ahead]))[0]
            if not np.isfinite(whole).all():
                break
            slow, following, clear = _begun_at_one(whole, len(self.fresh), inside)
            rings = bool(np.any((np.abs(slow.imag) > _REAL * np.abs(slow)) | (slow.real < _GONE)))
            if step > 1e-14 and (rings or not clear):
                step /= 2
            elif rings or not clear:  # where two meet, neither goes on
                return RateCrossing(float(ahead))
            else:
                longest = 1.0 if np.all(np.abs(1 - slow) < _NEAR_ONE) else _LONGEST_STEP
                rate, inside, step = ahead, following, min(2 * step or longest, longest)
        return RateCrossing(None, None, Reason.NO_RINGING)

    @property
    def mean_square(self) -> RateCrossing:
        """The learning rate at which the mean square stops decaying, where every update has `draws` of the ages.

        The second moment feeds back through one direction: with T the response of x to an error of what acts, it is
        where the mean of |T|^2 (1 - |Q|^2) over the unit circle is the number of draws. The least over the modes.
        """
        if not all(mode._leads for mode in self.modes) or np.iscomplexobj(self.spectrum):
            return RateCrossing(None, None, Reason.NOT_STALE)
        return self._first(lambda mode: mode._mean_square())

    def _mean_square(self) -> RateCrossing:
        assert self.draws is not None
        draws, top = self.draws, self.threshold.value
        high = 0.5 * (top or 0.0)
        while self._fed_back(high) < draws:  # it rises with the rate, without bound at the averaged threshold
            high = 0.5 * (high + (top or 0.0))
            if not top or high > top * (1 - 1e-9):  # nothing is drawn in the mode that crosses
                return self.threshold
        return RateCrossing(root(lambda rate: self._fed_back(rate) / draws - 1, 1e-9 * high, high, 1e-13))

    def _fed_back(self, rate: float) -> float:
        """The mean over the circle, with twice as many angles until it stands still; of one mode."""
        shares = self.rule.shares
        assert shares is not None
        before, count = np.inf, 2 ** max(12, math.ceil(math.log2(8 * len(shares))))
        while count <= _MOST_ANGLES:
            z, aged = np.exp(2j * np.pi * np.arange(count) / count), np.fft.fft(shares, count)
            step = rate * self.optimizer.transfer(z)
            closed = z - 1 - step * (self.fresh[0, 0] + aged * self.stale[0, 0])
            now = float(np.mean(np.abs(step * self.stale[0, 0] / closed) ** 2 * (1 - np.abs(aged) ** 2)))
            if abs(now - before) <= 1e-12 * abs(now):
                break
            before, count = now, 2 * count
        return now

    def _outside(self, rate: float) -> int:
        """How many multipliers of a filter are outside the unit circle: R less the determinant's turns along it."""
        assert self.rule.shares is not None
        r, points = len(self.fresh), 256 * (len(self.rule.shares) + 4)
        for _ in range(8):
            z = np.exp(1j * np.pi * np.arange(points + 1) / points)
            aged = np.fft.fft(self.rule.shares, 2 * points)[: points + 1, None, None]
            push = (rate * self.optimizer.transfer(z))[:, None, None] * (self.fresh + aged * self.stale)
            function = np.linalg.det((z - 1)[:, None, None] * np.eye(r) - push)
            jumps = np.angle(function[1:] / function[:-1])
            if np.abs(jumps).max() < np.pi / 2 or points > 2**17:
                break
            points *= 4
        return round(r - float(jumps.sum()) / np.pi)

    def spread(self, rate: float, noise: np.ndarray, reuse: bool = False) -> "_Spread":
        """The stationary fluctuation under gradient noise of covariance `noise` [R, R] per update of one policy.

        Discrete Lyapunov equation of the period's map. Noise enters through the optimiser's input, a new draw at every
        step, or with `reuse` one draw for the whole period; `LinearRule.noise` is what averaging over policies leaves.
        """
        if reuse and not self.blocks:
            return _Spread(None, Reason.NO_BLOCKS)
        if self.size > LARGEST_MAP:
            return _Spread(None, Reason.TOO_LARGE)
        whole, r = self.maps(np.array([rate]))[0], len(self.fresh)
        if not abs(ordered(whole)[0]) < 1:
            return _Spread(None, Reason.UNSTABLE)
        optimizer, n = self.optimizer.at(np.array([rate])), len(whole)
        entry = np.zeros((n, r))
        entry[: optimizer.shape[1] * r] = np.kron(optimizer[0, :, :1], np.eye(r))
        per_run = [(self._step(one, optimizer)[0], count) for one, count in self.rule.runs]
        strength = np.broadcast_to(self.rule.noise, self.rule.period)

        def through(start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """(covariance after a period, mean over its steps of that of x)."""
            state, total, at = np.zeros((n + r, n + r)), np.zeros((r, r)), 0
            state[:n, :n], state[n:, n:] = start, noise
            for one, count in per_run:
                step = np.eye(n + r)
                step[:n, :n], step[:n, n:] = one, entry if reuse else 0
                for _ in range(count):
                    total = total + state[:r, :r]
                    state = step @ state @ step.T
                    if not reuse:
                        state[:n, :n] += strength[at] * (entry @ noise @ entry.T)
                    at += 1
            return state[:n, :n], total / at

        once, _ = through(np.zeros((n, n)))
        return _Spread(through(_lyapunov(whole, once))[1])


def _begun_at_one(matrix: np.ndarray, modes: int, inside: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, bool]:
    """(multipliers that may have begun at 1, projector [n, n] on the subspace of the likeliest, whether it is clear).

    inside: that projector at a learning rate nearby; without one, they are still next to 1.
    """
    values, right = np.linalg.eig(matrix)
    gaps = np.abs(1 - values)
    shares = (gaps <= np.sort(gaps)[modes - 1]).astype(float)
    if inside is not None:
        shares = np.einsum("aj,ab,bj->j", right.conj(), inside, right).real
    order = np.argsort(-shares, kind="stable")
    last = shares[order[modes - 1]]
    chosen = order[:modes]
    # Not scipy's, which gives left vectors too: to import it takes a tenth of a second.
    backwards, left = np.linalg.eig(matrix.T)
    nearest = np.argsort(np.abs(backwards[:, None] - values[chosen]).min(axis=1), kind="stable")[:modes]
    span, dual = right[:, chosen], left[:, nearest].T
    clear = bool(last > 0.8 and np.all(shares[order[modes:]] < 0.2))
    return values[(shares >= last) | (shares > 0.2)], span @ np.linalg.lstsq(dual @ span, dual)[0], clear


def _peak(rates: Callable[[np.ndarray], np.ndarray], gaps: np.ndarray, every: np.ndarray, mode: int) -> float:
    """The first maximum of a mode's rates `every` [G, R] along the gaps, or the value at their end."""
    with np.errstate(invalid="ignore"):
        falls = np.flatnonzero(np.diff(every[:, mode]) < 0)
    if not len(falls):
        return float(every[-1, mode])
    low, high = gaps[max(falls[0] - 1, 0)], gaps[falls[0] + 1]
    for _ in range(8):  # around the maximum again and again: its place has half the digits of its height
        inner = np.linspace(low, high, 41)
        top = int(np.nanargmax(rates(inner)[:, mode]))
        low, high = inner[max(top - 1, 0)], inner[min(top + 1, 40)]
    return float(rates(np.array([0.5 * (low + high)]))[0, mode])


class _Spread(NamedTuple):
    """Covariance [R, R] of x, mean over a period, or why there is none."""

    average: np.ndarray | None
    reason: Reason | None = None


def _lyapunov(matrix: np.ndarray, source: np.ndarray) -> np.ndarray:
    """S = M S M^T + Q for a stable M [n, n] by doubling: after j rounds 2^j terms of the series are summed."""
    total, power = source, matrix
    for _ in range(60):
        update = power @ total @ power.T
        total = total + update
        if np.abs(update).max() <= 1e-17 * np.abs(total).max():
            break
        power = power @ power
    return 0.5 * (total + total.T)


def spectrum(matrix: np.ndarray) -> np.ndarray:
    """Eigenvalues [R], largest real part first, real where they are."""
    values = np.linalg.eigvals(matrix)
    values = values[np.argsort(-values.real, kind="stable")]
    return values.real if np.all(np.abs(values.imag) <= 1e-10 * np.abs(values).max()) else values


# ------------------------------------------------------------------------------------------ from a learner to its loop


def loop_of(
    learner: Learner, fresh: np.ndarray, stale: np.ndarray, momentum: float, interval: float
) -> tuple[Loop | None, str | None]:
    """(the loop of a learner's rule and optimiser, None), or (None, why there is none).

    Ages that are drawn have the loop of their average, and a reason: its multipliers are not theirs. Raises ValueError
    for an interval that the rule cannot have.

    Example:
      >>> from bandit_lab.bandits import two_arm
      >>> loop, _ = loop_of(Learner(two_arm()), np.zeros((1, 1)), np.ones((1, 1)), momentum=0.0, interval=8)
      >>> round(loop.threshold.value, 6), loop.threshold.kind, round(loop.onset.value, 6)
      (0.25, 'flip', 0.125)
    """
    rule: Any = learner.staleness
    reason, draws = no_loop(learner, interval), None
    if reason is Reason.DRAWN and rule.averaged is not None:
        rule, draws = rule.averaged()
    optimizer = response_of(learner.optimizer, momentum)
    if optimizer is None or (reason and draws is None):
        return None, reason or Reason.NOT_LINEAR
    linear_rule = _rule_of(rule, interval, max(learner.horizon, rule.horizon_for(interval)))
    given_ages = rule.whole_interval and rule.averages
    loop = Loop(fresh, stale, linear_rule, optimizer, interval, rule.block_synchronous, given_ages, draws)
    return loop, reason


def no_loop(learner: Learner, interval: float) -> str | None:
    """Why a learner has no loop, or none whose multipliers are its own; else None."""
    rule: Any = learner.staleness
    try:
        rule.period(interval)
    except ValueError as error:
        return Reason.DRAWN if rule.drawn else str(error)
    return Reason.NOT_LINEAR if response_of(learner.optimizer, 0.5) is None else None


class UnstableIntervals(NamedTuple):
    """Ranges [first, last] of unstable refresh intervals up to `searched`, or why they were not searched."""

    islands: list[list[int]] | None
    searched: int | None = None
    reason: str | None = None


def unstable_intervals(
    learner: Learner, fresh: np.ndarray, stale: np.ndarray, momentum: float, rate: float
) -> UnstableIntervals:
    """The refresh intervals at which the loop is unstable at a learning rate, up to `SEARCHED`.

    Blocks are multiplied up once. Of a filter multipliers outside the unit circle are counted, by the argument
    principle; the threshold of one constant age falls with the age where the whole stiffness is stale, so that there
    one range is found by bisection. Up to `COUNTED` where they are counted.
    """
    rule: Any = learner.staleness
    first = rule.smallest_interval
    if not rule.whole_interval or rule.averages:
        return UnstableIntervals(None, None, Reason.NOT_SEARCHED)
    if rule.block_synchronous:
        loop, reason = loop_of(learner, fresh, stale, momentum, 2)
        if loop is None or reason:
            return UnstableIntervals(None, None, reason)
        return UnstableIntervals(_ranges(_unstable_blocks(loop, rate), 1), SEARCHED)
    loop, reason = loop_of(learner, fresh, stale, momentum, max(first, 1))
    if loop is None or reason or loop.rule.shares is None or rule.period(COUNTED) != 1:
        return UnstableIntervals(None, None, reason or Reason.NOT_SEARCHED)

    def at(interval: int, largest: int) -> Loop:
        return replace(loop, rule=_rule_of(rule, interval, rule.horizon_for(largest)))

    if all(mode._leads for mode in loop.modes) and np.count_nonzero(loop.rule.shares) == 1:
        every = range(first, SEARCHED + 1)
        lost = bisect.bisect_left(every, True, key=lambda one: (at(one, SEARCHED).threshold.value or 0.0) <= rate)
        return UnstableIntervals([[first + lost, SEARCHED]] if lost < len(every) else [], SEARCHED)
    flags = [at(one, COUNTED)._outside(rate) > 0 for one in range(first, COUNTED + 1)]
    return UnstableIntervals(_ranges(flags, first), COUNTED)


def _unstable_blocks(loop: Loop, rate: float) -> np.ndarray:
    """Whether blocks of 1, 2, ... steps are unstable [SEARCHED]."""
    optimizer, flags = loop.optimizer.at(np.array([rate])), np.zeros(SEARCHED, bool)
    for mode in loop.modes:
        one, other = (mode._step(step, optimizer)[0] for step, _ in loop.rule.runs)
        maps = [one]
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(SEARCHED - 1):
                maps.append(other @ maps[-1])
        flags |= ~(np.abs(ordered(np.array(maps))[:, 0]) < 1)
    return flags


def _ranges(flags: Any, first: int) -> list[list[int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(flags, int), [0]])))
    return [[int(a) + first, int(b) - 1 + first] for a, b in zip(edges[::2], edges[1::2], strict=True)]
