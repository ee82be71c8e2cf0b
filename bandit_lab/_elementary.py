"""Exponential and logarithms of float32 in half the instructions of XLA's or fewer; other types take the usual ones."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._types import Array

_EXP2 = (1.340043217e-3, 9.676037098e-3, 5.550327214e-2, 2.402210736e-1, 6.931472067e-1, 1.000000075)
_SMALLEST_EXPONENT = -120
_LOG = (
    *(7.0376836e-2, -1.1514610e-1, 1.1676999e-1, -1.2420141e-1, 1.4249323e-1, -1.6668058e-1),
    *(2.0000715e-1, -2.4999994e-1, 3.3333331e-1, -0.5, 1.0),
)
"""Of log(1 + f) / f, |f| < 0.42, falling powers (Moshier, cephes `logf`)."""
_ROOT_OF_HALF = 0x3F3504F3  # its bits


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
    found = _log_of(whole, jnp.where(whole == 0, x, f))  # f has lost the last digits of a small x
    beyond = jnp.where(one_more == 0, -jnp.inf, jnp.where(one_more > 0, one_more, jnp.nan))
    return jnp.where((one_more > 0) & (one_more < jnp.inf), found, beyond)


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
