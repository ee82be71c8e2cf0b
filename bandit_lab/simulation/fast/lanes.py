"""Arithmetic on arrays [K, L]: arms lead, L seeds ("lanes") stand side by side in the vector registers."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._numerics import exp, leading_sum, materialize
from bandit_lab._types import Array


def as_float(x: Array, dtype: Any) -> Array:
    """Unsigned integers below 2^31 as floats: through signed ones, for which there is an instruction."""
    return x.astype(jnp.int32).astype(dtype)


def unit_uniform(word: Array, dtype: Any) -> Array:
    """[0, 1) in steps of 2^-23: its product with x > 0 stays below x when rounded."""
    return as_float(word >> np.uint32(9), dtype) * dtype.type(2.0**-23)


def softmax_parts(logits: Array) -> tuple[Array, Array]:
    """(weights [K, L] in (0, 1], their sum [L]): the policy is their quotient."""
    highest = lax.reduce(logits, np.array(-np.inf, logits.dtype), lambda x, y: jnp.where(x > y, x, y), (0,))
    weights = materialize(exp(logits - highest))
    return weights, leading_sum(weights)
