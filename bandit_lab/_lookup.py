"""Looking a row of its own up for every lane of a table [H, D, L].

XLA:CPU emits a gather element by element, with the index taken apart each time; where a lane needs several elements,
a loop over lanes that copies a row each costs half as much. An accelerator gathers.
"""

from math import gcd

import jax
import jax.numpy as jnp
from jax import lax

from bandit_lab._barrier import materialize
from bandit_lab._types import Array

_TOGETHER = 8  # lanes per turn of the loop


def row_of_each(table: Array, place: Array) -> Array:
    """table[place[l], :, l] for every lane l: [H, D, L] and [L] (within bounds) -> [D, L]."""
    _, size, lanes = table.shape
    if size == 1 or jax.default_backend() != "cpu":
        return materialize(jnp.take_along_axis(table, place[None, None], axis=0, mode="promise_in_bounds")[0])
    together, zero = gcd(lanes, _TOGETHER), jnp.zeros((), place.dtype)

    def some(turn: Array, rows: Array) -> Array:
        for i in range(together):
            lane = (turn * together + i).astype(place.dtype)
            row = lax.dynamic_slice(table, (lax.dynamic_index_in_dim(place, lane, 0, False), zero, lane), (1, size, 1))
            rows = lax.dynamic_update_slice(rows, row[0], (zero, lane))
        return rows

    return materialize(lax.fori_loop(0, lanes // together, some, jnp.zeros((size, lanes), table.dtype)))
