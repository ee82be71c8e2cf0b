"""Matrices with few numbers other than zero, the same for all lanes: `lanes_last` skips the zeros in their products.

Features of prompts are often of this kind: those which every prompt has for itself are zero at all others. Their
numbers then lie on a few stretches of diagonals, and a product is as many sums of neighbouring rows.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._types import Array

_FEW = 1 / 4
"""Largest share of numbers that are not zero. Every one of them costs an access of its own, a dense product none."""
_SMALLEST = 64
_KNOWN = 4096  # numbers whose places a compiled program knows, at most
_STRETCHES = 16  # of a product that is written out, at most


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sparse:
    """An array and where it is not zero. dense: [...]. places: [n, axes] integers, row after row. numbers: [n].

    known: the places in all axes together, as bytes of 32-bit integers and a part of what is compiled; empty where
    there are many.
    """

    dense: Any
    places: Any
    numbers: Any
    known: bytes = field(default=b"", metadata={"static": True})


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
    known = np.ravel_multi_index(tuple(places.T), array.shape).astype(np.uint32).tobytes()
    return Sparse(array, places.astype(np.uint32), array[tuple(places.T)], known if len(places) <= _KNOWN else b"")


def product(matrix: Sparse, summed: tuple[int, ...], table: Array) -> Array:
    """Sum over the axes `summed` of the matrix [...] times the table [T, ..., L], T all of them together.

    Gives [R, ..., L], R the other axes together. A number that is not finite stays in its own rows.
    """
    shape = np.shape(matrix.dense)
    free = tuple(axis for axis in range(len(shape)) if axis not in summed)
    stretches = _stretches(matrix, free, summed)
    if 0 < len(stretches) <= _STRETCHES:
        return _by_stretches(matrix, free, summed, stretches, table)
    rows, terms = (_together(matrix.places, shape, axes) for axes in (free, summed))

    def add(i: Array, total: Array) -> Array:
        row = lax.dynamic_index_in_dim(total, rows[i], 0, keepdims=False)
        term = lax.dynamic_index_in_dim(table, terms[i], 0, keepdims=False)
        return lax.dynamic_update_index_in_dim(total, row + matrix.numbers[i] * term, rows[i], 0)

    nothing = _zeros(prod(shape[axis] for axis in free), matrix, table)
    return lax.fori_loop(np.uint32(0), np.uint32(matrix.numbers.shape[0]), add, nothing)


class _Stretch(NamedTuple):
    """Numbers at (row + i, term + i), i < length."""

    row: int
    term: int
    length: int


def _stretches(matrix: Sparse, free: tuple[int, ...], summed: tuple[int, ...]) -> list[_Stretch]:
    """The matrix [R, T] as stretches of diagonals, those of every row by rising term; none where it is not known."""
    shape = np.shape(matrix.dense)
    places = np.unravel_index(np.frombuffer(matrix.known, np.uint32), shape)
    rows, terms = (
        np.ravel_multi_index(tuple(places[axis] for axis in axes), tuple(shape[axis] for axis in axes))
        for axes in (free, summed)
    )
    found: list[_Stretch] = []
    for term_less_row, row in sorted(zip((terms - rows).tolist(), rows.tolist(), strict=True)):
        term, last = term_less_row + row, found[-1] if found else None
        if last is not None and (row, term) == (last.row + last.length, last.term + last.length):
            found[-1] = last._replace(length=last.length + 1)
        else:
            found.append(_Stretch(row, term, 1))
    return found


def _by_stretches(
    matrix: Sparse, free: tuple[int, ...], summed: tuple[int, ...], stretches: list[_Stretch], table: Array
) -> Array:
    """`product`, stretch after stretch. A single one is left to be worked out where it is used."""
    whole = jnp.transpose(matrix.dense, (*free, *summed)).reshape(-1, table.shape[0])
    count, terms = whole.shape

    def part(stretch: _Stretch) -> Array:
        first = stretch.row * terms + stretch.term
        numbers = whole.reshape(-1)[first : first + (stretch.length - 1) * (terms + 1) + 1 : terms + 1]
        numbers = numbers.reshape(-1, *(1,) * (table.ndim - 1))
        return numbers * table[stretch.term : stretch.term + stretch.length]

    if len(stretches) == 1:
        only = stretches[0]
        after = count - only.row - only.length
        edges = [(only.row, after, 0), *[(0, 0, 0)] * (table.ndim - 1)]
        return lax.pad(part(only), np.zeros((), table.dtype), edges) if only.row or after else part(only)
    total = _zeros(count, matrix, table)
    for stretch in stretches:
        old = total[stretch.row : stretch.row + stretch.length]
        total = lax.dynamic_update_slice_in_dim(total, old + part(stretch), stretch.row, 0)
    return total


def _zeros(count: int, matrix: Sparse, table: Array) -> Array:
    """Zeros [count, ..., L], in a way that XLA cannot move out of a loop: it would copy them at every turn."""
    dtype = jnp.result_type(matrix.numbers, table)
    if dtype != jnp.float32:
        return jnp.zeros((count, *table.shape[1:]), dtype)
    bits = lax.bitcast_convert_type(table[0], jnp.uint32) >> np.uint32(31)
    return jnp.broadcast_to(lax.bitcast_convert_type(bits >> np.uint32(1), dtype), (count, *table.shape[1:]))


def _together(places: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Places [n, axes] along some axes, as places [n] in all of these together."""
    found = jnp.zeros(places.shape[0], jnp.uint32)
    for axis in axes:
        found = found * np.uint32(shape[axis]) + places[:, axis]
    return found
