"""Entire functions of a square root, and decaying oscillations without overflow, of NumPy or JAX arrays.

`cos(sqrt z)` and `sin(sqrt z)/sqrt z` are entire in z. A damped oscillator written with them is one smooth formula
for z > 0 (oscillating), z = 0 (critical) and z < 0 (overdamped). Near z = 0 both are evaluated by their
Taylor series, whose derivatives are the exact ones. Elsewhere each branch only sees arguments of its own sign, so that
none leaks a NaN into a derivative.

Written to the array API standard: the arguments bring their library along, so that plain numbers need no JAX.
"""

import math
from typing import Any

import numpy as np

_SERIES_RADIUS = 1.0
_SERIES_TERMS = 12


def namespace(*values: Any) -> Any:
    """The array library of these arguments: JAX's where one of them is its array, traced or not, else NumPy."""
    for value in values:
        if not isinstance(value, np.ndarray | np.generic) and hasattr(value, "__array_namespace__"):
            return value.__array_namespace__()
    return np


def floating(xp: Any, value: Any) -> Any:
    """The value as an array of `xp`; whole numbers become the default real type."""
    array = xp.asarray(value)
    return array if xp.issubdtype(array.dtype, xp.floating) else array.astype(xp.result_type(float))


def _series(xp: Any, z: Any, offset: int) -> Any:
    """Horner sum of (-z)^k / (2k + offset)! for k below the fixed number of terms."""
    total = xp.zeros_like(z)
    for k in reversed(range(_SERIES_TERMS)):
        total = total * -z + 1.0 / math.factorial(2 * k + offset)
    return total


def _split(xp: Any, z: Any) -> tuple[Any, Any, Any, Any]:
    """Series region, series argument, and the square roots of the positive and negative parts (safe elsewhere)."""
    small = xp.abs(z) < _SERIES_RADIUS
    near = xp.where(small, z, 0.0)
    positive = xp.sqrt(xp.where(~small & (z > 0), z, 1.0))
    negative = xp.sqrt(xp.where(~small & (z < 0), -z, 1.0))
    return small, near, positive, negative


def decaying_pair(decay: Any, squared_norm: Any) -> tuple[Any, Any]:
    """exp(-a) cos(sqrt z) and exp(-a) sin(sqrt z)/sqrt z with z = `squared_norm` - a^2, a = `decay`.

    No overflow when a is large: for z < 0, with b = sqrt(-z), the product is (exp(-(a-b)) +- exp(-(a+b)))/2. The
    smaller exponent comes from (a-b)(a+b) = `squared_norm`, which loses no digits however large a is.
    Arguments broadcast against each other; both are dimensionless. Derived here.
    """
    xp = namespace(decay, squared_norm)
    a, norm = xp.broadcast_arrays(floating(xp, decay), floating(xp, squared_norm))
    z = norm - a * a
    small, near, positive, negative = _split(xp, z)
    overdamped = ~small & (z < 0)
    larger = xp.abs(a) + negative
    smaller = xp.where(overdamped, norm / xp.where(overdamped, larger, 1.0), 0.0)
    slow = xp.where(a >= 0, smaller, -xp.where(overdamped, larger, 0.0))
    envelope = xp.exp(-slow)
    shrink = xp.exp(-2.0 * negative)
    factor = xp.exp(-xp.where(overdamped, 0.0, a))
    cosine = xp.where(
        overdamped, 0.5 * envelope * (1.0 + shrink), factor * xp.where(small, _series(xp, near, 0), xp.cos(positive))
    )
    sine = xp.where(
        overdamped,
        envelope * (1.0 - shrink) / (2.0 * negative),
        factor * xp.where(small, _series(xp, near, 1), xp.sin(positive) / positive),
    )
    return cosine, sine
