"""Numerically safe primitives: entire functions of a square root, and decaying oscillations without overflow.

`cos(sqrt z)` and `sin(sqrt z)/sqrt z` are entire in z, so a damped oscillator written with them is one smooth
formula for z > 0 (oscillating), z = 0 (critical) and z < 0 (overdamped). Near z = 0 both are evaluated by their
Taylor series, whose derivatives are the exact ones; elsewhere each branch only ever sees arguments of its own sign,
so that no branch leaks a NaN into a derivative.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from bandit_lab._barrier import materialize

_SERIES_RADIUS = 1.0
_SERIES_TERMS = 12


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


def _floating(value: ArrayLike) -> Array:
    array = jnp.asarray(value)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))


def _series(z: Array, offset: int) -> Array:
    """Horner sum of (-z)^k / (2k + offset)! for k below the fixed number of terms."""
    total = jnp.zeros_like(z)
    for k in reversed(range(_SERIES_TERMS)):
        total = total * -z + 1.0 / math.factorial(2 * k + offset)
    return total


def _split(z: Array) -> tuple[Array, Array, Array, Array]:
    """Series region, series argument, and the square roots of the positive and negative parts (safe elsewhere)."""
    small = jnp.abs(z) < _SERIES_RADIUS
    near = jnp.where(small, z, 0.0)
    positive = jnp.sqrt(jnp.where(~small & (z > 0), z, 1.0))
    negative = jnp.sqrt(jnp.where(~small & (z < 0), -z, 1.0))
    return small, near, positive, negative


def decaying_pair(decay: ArrayLike, squared_norm: ArrayLike) -> tuple[Array, Array]:
    """exp(-a) cos(sqrt z) and exp(-a) sin(sqrt z)/sqrt z with z = `squared_norm` - a^2, a = `decay`.

    No overflow when a is large: for z < 0, with b = sqrt(-z), the product is (exp(-(a-b)) +- exp(-(a+b)))/2 and the
    smaller of the two exponents is taken from (a-b)(a+b) = `squared_norm`, which loses no digits however large a is.
    Arguments broadcast against each other; both are dimensionless. Derived here.
    """
    a, norm = jnp.broadcast_arrays(_floating(decay), _floating(squared_norm))
    z = norm - a * a
    small, near, positive, negative = _split(z)
    overdamped = ~small & (z < 0)
    larger = jnp.abs(a) + negative
    smaller = jnp.where(overdamped, norm / jnp.where(overdamped, larger, 1.0), 0.0)
    slow = jnp.where(a >= 0, smaller, -jnp.where(overdamped, larger, 0.0))
    envelope = jnp.exp(-slow)
    shrink = jnp.exp(-2.0 * negative)
    factor = jnp.exp(-jnp.where(overdamped, 0.0, a))
    cosine = jnp.where(
        overdamped, 0.5 * envelope * (1.0 + shrink), factor * jnp.where(small, _series(near, 0), jnp.cos(positive))
    )
    sine = jnp.where(
        overdamped,
        envelope * (1.0 - shrink) / (2.0 * negative),
        factor * jnp.where(small, _series(near, 1), jnp.sin(positive) / positive),
    )
    return cosine, sine


def atan_sqrt(z: ArrayLike) -> Array:
    """atan(sqrt z)/sqrt z for real z > -1 (atanh(sqrt -z)/sqrt -z for z < 0), smooth through z = 0."""
    z = _floating(z)
    small = jnp.abs(z) < 0.05
    near = jnp.where(small, z, 0.0)
    series = jnp.zeros_like(z)
    for k in reversed(range(13)):
        series = series * -near + 1.0 / (2 * k + 1)
    positive = jnp.sqrt(jnp.where(~small & (z > 0), z, 1.0))
    negative = jnp.sqrt(jnp.where(~small & (z < 0), -z, 0.25))
    return jnp.where(small, series, jnp.where(z > 0, jnp.arctan(positive) / positive, jnp.arctanh(negative) / negative))
