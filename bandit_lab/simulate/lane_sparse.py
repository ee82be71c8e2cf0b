"""Matrices with few numbers other than zero, the same for all lanes: `lanes_last` skips the zeros in their products.

Features of prompts are often of this kind: those which every prompt has for itself are zero at all others.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._types import Array

_FEW = 1 / 4
"""Largest share of numbers that are not zero. Every one of them costs an access of its own, a dense product none."""
_SMALLEST = 64


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sparse:
    """An array and where it is not zero. dense: [...]. places: [n, axes] integers, row after row. numbers: [n]."""

    dense: Any
    places: Any
    numbers: Any


def is_sparse(value: Any) -> bool:
    """Whether a value is `Sparse`."""
    return isinstance(value, Sparse)


def dense(value: Any) -> Any:
    """The array of a `Sparse`, any other value as it is."""
    return value.dense if is_sparse(value) else value


def where_few(array: np.ndarray) -> Any:
    """A host array as `Sparse` where it has at least two axes and few numbers other than zero; else as it is."""
    floating = np.issubdtype(array.dtype, np.floating)
    if array.ndim < 2 or array.size < _SMALLEST or not floating or np.count_nonzero(array) > _FEW * array.size:
        return array
    places = np.argwhere(array) if array.any() else np.zeros((1, array.ndim), int)
    return Sparse(array, places.astype(np.uint32), array[tuple(places.T)])


def product(matrix: Sparse, summed: tuple[int, ...], table: Array) -> Array:
    """Sum over the axes `summed` of the matrix [...] times the table [T, columns, L], T all of them together.

    Gives [R, columns, L], R the other axes together. A number that is not finite stays in its own rows.
    """
    shape = np.shape(matrix.dense)
    free = tuple(axis for axis in range(len(shape)) if axis not in summed)
    rows, terms = (_together(matrix.places, shape, axes) for axes in (free, summed))
    count = int(np.prod([shape[axis] for axis in free], dtype=int))

    def add(i: Array, total: Array) -> Array:
        row = lax.dynamic_index_in_dim(total, rows[i], 0, keepdims=False)
        term = lax.dynamic_index_in_dim(table, terms[i], 0, keepdims=False)
        return lax.dynamic_update_index_in_dim(total, row + matrix.numbers[i] * term, rows[i], 0)

    nothing = jnp.zeros((count, *table.shape[1:]), jnp.result_type(matrix.numbers, table))
    return lax.fori_loop(np.uint32(0), np.uint32(matrix.numbers.shape[0]), add, nothing)


def _together(places: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Places [n, axes] along some axes, as places [n] in all of these together."""
    found = jnp.zeros(places.shape[0], jnp.uint32)
    for axis in axes:
        found = found * np.uint32(shape[axis]) + places[:, axis]
    return found
