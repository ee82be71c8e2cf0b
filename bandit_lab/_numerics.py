"""Array arithmetic that every room shares: what is computed once, elementary functions, sums, rows of a table.

`materialize`: XLA:CPU copies every cheap elementwise producer into each of its consumers, and drops
`optimization_barrier` before it fuses. A reduction is never copied. This one runs over a dummy axis whose second slice
is the neutral element. LLVM folds it away, and only the memory write remains.

`exp`, `log`, `log1p`: of float32 in half the instructions of XLA's or fewer; other types take the usual ones.

`row_of_each`: XLA:CPU emits a gather element by element, with the index taken apart each time; where a lane needs
several elements, a loop over lanes that copies a row each costs half as much. An accelerator gathers.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from bandit_lab._types import Array

_WRITTEN_OUT = 64
_TOGETHER = 8  # rows of a sum, lanes per turn of a loop
_EXP2 = (1.340043217e-3, 9.676037098e-3, 5.550327214e-2, 2.402210736e-1, 6.931472067e-1, 1.000000075)
_SMALLEST_EXPONENT = -120
_LOG = (
    *(7.0376836e-2, -1.1514610e-1, 1.1676999e-1, -1.2420141e-1, 1.4249323e-1, -1.6668058e-1),
    *(2.0000715e-1, -2.4999994e-1, 3.3333331e-1, -0.5, 1.0),
)
"""Of log(1 + f) / f, |f| < 0.42, falling powers (Moshier, cephes `logf`)."""
_ROOT_OF_HALF = 0x3F3504F3  # its bits


def materialize(x: Array) -> Array:
    """`x`, bit for bit, held in memory: its consumers read it instead of computing it again."""
    zero = -0.0 if jnp.issubdtype(x.dtype, jnp.floating) else 0  # x + (-0.0) is x, also for x = 0.0
    neutral = np.array(zero, x.dtype)
    first = np.array([True, False]).reshape((2,) + (1,) * x.ndim)
    combine = lax.bitwise_or if x.dtype == bool else lax.add
    return lax.reduce(jnp.where(first, x[None], neutral), neutral, combine, (0,))


def leading_sum(x: Array) -> Array:
    """Sum over the leading axis, [K, ...] -> [...], computed once."""
    return leading_sum_of(lambda row: row, x)


def leading_sum_of(term: Callable[..., Array], *arrays: Array) -> Array:
    """Sum of term(row of each array) over the leading axis, [K, ...] -> [...], computed once. term: elementwise.

    Written out up to K = 64, and in eights where they divide K: a term of whole arrays would be put into memory first.
    """
    count = arrays[0].shape[0]
    if count > _TOGETHER and count % _TOGETHER == 0:
        eights = [x.reshape(-1, _TOGETHER, *x.shape[1:]) for x in arrays]
        return leading_sum(materialize(add_up(*(term(*(x[:, i] for x in eights)) for i in range(_TOGETHER)))))
    if count > _WRITTEN_OUT:
        return jnp.sum(term(*arrays), axis=0)
    return materialize(add_up(*(term(*rows) for rows in zip(*arrays, strict=True))))


def leading_max(x: Array) -> Array:
    """Maximum over the leading axis of numbers that are not NaN, [K, ...] -> [...], computed once."""
    if x.shape[0] > 2 * _WRITTEN_OUT:
        return jnp.max(x, axis=0)
    highest = x[0]
    for k in range(1, x.shape[0]):
        highest = jnp.where(highest > x[k], highest, x[k])
    return materialize(highest)


def add_up(first: Array, *others: Array) -> Array:
    """The sum of arrays, in order."""
    for other in others:
        first = first + other
    return first


def log_of_powers(chances: Array, counts: ArrayLike) -> Array:
    """log of the product of p^n over the last axis: 0^0 = 1.

    chances: p, [..., U] or [..., 1, U]. counts: n >= 0, [M, U], which broadcast against them -> [..., M]. In the
    derivative a chance of 0 stays 0: it is at its minimum, so that no smooth policy moves it. (That of `xlogy` at
    n = p = 0 is 0/0.)
    """
    counts = jnp.asarray(counts, chances.dtype)
    possible = chances > 0
    terms = counts * jnp.log(jnp.where(possible, chances, 1))
    return jnp.sum(jnp.where(possible | (counts == 0), terms, -jnp.inf), axis=-1)


def ordered(maps: np.ndarray) -> np.ndarray:
    """Eigenvalues [..., n] of maps [..., n, n], largest modulus first; infinite where a map is."""
    finite = np.isfinite(maps).all(axis=(-2, -1))
    values = np.linalg.eigvals(np.where(finite[..., None, None], maps, 0)).astype(complex)
    values = np.where(finite[..., None], values, np.inf)
    return np.take_along_axis(values, np.argsort(-np.abs(values), axis=-1, kind="stable"), axis=-1)


def dominant(multipliers: np.ndarray) -> np.ndarray:
    """Which of [n] have the largest modulus, up to rounding: modes that decay equally fast."""
    sizes = np.abs(multipliers)
    return sizes >= (1 - 1e-9) * sizes.max(initial=0.0)


def row_of_each(table: Array, place: Array) -> Array:
    """table[place[l], :, l] for every lane l: [H, D, L] and [L] (within bounds) -> [D, L]."""
    _, size, lanes = table.shape
    if size == 1 or jax.default_backend() != "cpu":
        return materialize(jnp.take_along_axis(table, place[None, None], axis=0, mode="promise_in_bounds")[0])
    together, zero = math.gcd(lanes, _TOGETHER), jnp.zeros((), place.dtype)

    def some(turn: Array, rows: Array) -> Array:
        for i in range(together):
            lane = (turn * together + i).astype(place.dtype)
            row = lax.dynamic_slice(table, (lax.dynamic_index_in_dim(place, lane, 0, False), zero, lane), (1, size, 1))
            rows = lax.dynamic_update_slice(rows, row[0], (zero, lane))
        return rows

    return materialize(lax.fori_loop(0, lanes // together, some, jnp.zeros((size, lanes), table.dtype)))


@jax.custom_jvp
def exp(x: Array) -> Array:
    """exp(x) for x <= 0, never below 2^-120: float32 by a polynomial, relative error (2.2 + |x|) 1e-7."""
    if x.dtype != jnp.float32:
        return jnp.exp(jnp.maximum(x, _SMALLEST_EXPONENT * np.log(2.0)))
    y = jnp.maximum(x * np.float32(math.log2(math.e)), np.float32(_SMALLEST_EXPONENT))
    whole = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    part = jnp.full_like(y, _EXP2[0])
    for coefficient in _EXP2[1:]:
        part = part * (y - whole) + np.float32(coefficient)
    exponent = lax.bitcast_convert_type(whole + np.float32(1.5 * 2**23), jnp.int32) << 23
    return lax.bitcast_convert_type(lax.bitcast_convert_type(part, jnp.int32) + exponent, jnp.float32)


@exp.defjvp
def _derivative(x: tuple[Array], change: tuple[Array]) -> tuple[Array, Array]:
    value = exp(*x)
    return value, value * change[0]


def log(x: Array) -> Array:
    """log(x) for normal x > 0: float32 by a polynomial, error 1e-7 of |log x| or of 1 where it is larger."""
    return _log_of(*_parts(x)) if x.dtype == jnp.float32 else jnp.log(x)


def log1p(x: Array) -> Array:
    """log(1 + x) for every x: float32 by the polynomial of `log`, relative error 5.2e-7; ends as `jnp.log1p`."""
    if x.dtype != jnp.float32:
        return jnp.log1p(x)
    one_more = 1 + x
    whole, f = _parts(one_more)
    logarithm = _log_of(whole, jnp.where(whole == 0, x, f))  # f has lost the last digits of a small x
    beyond = jnp.where(one_more == 0, -jnp.inf, jnp.where(one_more > 0, one_more, jnp.nan))
    return jnp.where((one_more > 0) & (one_more < jnp.inf), logarithm, beyond)


def _parts(x: Array) -> tuple[Array, Array]:
    """(n, f) with x = 2^n (1 + f) and 1 + f in [sqrt(1/2), sqrt(2))."""
    bits = lax.bitcast_convert_type(x, jnp.int32)
    whole = (bits - np.int32(_ROOT_OF_HALF)) >> 23
    return whole, lax.bitcast_convert_type(bits - (whole << 23), jnp.float32) - 1


def _log_of(whole: Array, f: Array) -> Array:
    part = jnp.full_like(f, _LOG[0])
    for coefficient in _LOG[1:]:
        part = part * f + np.float32(coefficient)
    return part * f + whole.astype(jnp.float32) * np.float32(np.log(2.0))
