"""Sums and maxima over an axis, each computed once; logarithms of chances that may be 0; multipliers in order."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from bandit_lab._barrier import materialize

_WRITTEN_OUT = 64
_TOGETHER = 8


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
