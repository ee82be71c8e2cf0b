"""Arithmetic on arrays [K, L]: arms lead, L seeds ("lanes") stand side by side in the vector registers."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._barrier import computed_once
from bandit_lab._numerics import leading_sum
from bandit_lab._types import Array

_EXP2 = (1.340043217e-3, 9.676037098e-3, 5.550327214e-2, 2.402210736e-1, 6.931472067e-1, 1.000000075)
_SMALLEST_EXPONENT = -120


def exp(x: Array) -> Array:
    """exp(x) for x <= 0: float32 by a polynomial, relative error 2e-7, never below 2^-120; float64 the usual one."""
    if x.dtype != jnp.float32:
        return jnp.exp(jnp.maximum(x, _SMALLEST_EXPONENT * np.log(2.0)))
    y = jnp.maximum(x * np.float32(np.log2(np.e)), np.float32(_SMALLEST_EXPONENT))
    whole = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    part = jnp.full_like(y, _EXP2[0])
    for coefficient in _EXP2[1:]:
        part = part * (y - whole) + np.float32(coefficient)
    exponent = lax.bitcast_convert_type(whole + np.float32(1.5 * 2**23), jnp.int32) << 23
    return lax.bitcast_convert_type(lax.bitcast_convert_type(part, jnp.int32) + exponent, jnp.float32)


def as_float(x: Array, dtype) -> Array:
    """Unsigned integers below 2^31 as floats: through signed ones, for which there is an instruction."""
    return x.astype(jnp.int32).astype(dtype)


def softmax_parts(logits: Array) -> tuple[Array, Array]:
    """(weights [K, L] in (0, 1], their sum [L]): the policy is their quotient."""
    highest = lax.reduce(logits, np.array(-np.inf, logits.dtype), lambda x, y: jnp.where(x > y, x, y), (0,))
    weights = computed_once(exp(logits - highest))
    return weights, leading_sum(weights)
