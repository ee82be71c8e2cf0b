"""Rules of `lanes_last`: single operations on arrays [..., L]."""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from math import gcd, prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._elementary import log1p
from bandit_lab._numerics import add_up, leading_sum
from bandit_lab._types import Array
from bandit_lab.simulation.lane_sparse import dense, is_sparse, product
from bandit_lab.simulation.laned import Laned, carries_keys, held

_NAMES = """abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp clz convert_element_type copy
    cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log
    logistic lt max min mul ne neg nextafter not or population_count pow rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor"""
_ELEMENTWISE = frozenset(_NAMES.split())
_AXES = """argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum rev split squeeze"""
_SAME_AXES = frozenset(_AXES.split())
_WRITTEN_OUT = 64  # rows of a running sum, or of a table that every lane looks up by itself
_TOGETHER = 16  # products of a contraction in one expression, at most


def bind(equation: Any, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    return equation.primitive.bind(*inputs, **params)


def by_rule(equation: Any, name: str, inputs: list[Any], params: dict[str, Any], lanes: int) -> Any:
    """The result(s) with the lanes last, or None where there is no rule."""
    if not equation.outvars or any(carries_keys(x) for x in inputs):
        return None
    shape, first = equation.outvars[0].aval.shape, inputs[0]
    if name in _ELEMENTWISE:
        return bind(equation, [_full(x, shape, lanes) for x in inputs], params)
    if name in _SAME_AXES:
        return _reduced(equation, name, first, params)
    if name == "dot_general":
        return _contracted(inputs, params, lanes)
    rule = RULES.get(name)
    return None if rule is None else rule(equation, inputs, params, shape, lanes)


def _full(value: Any, shape: tuple[int, ...], lanes: int) -> Array:
    """A value of that shape, or a scalar, as [..., L]."""
    array = value.array if isinstance(value, Laned) else jnp.asarray(value)[..., None]
    if array.ndim == 1 and shape:
        array = array.reshape(*(1,) * len(shape), -1)
    return jnp.broadcast_to(array, (*shape, lanes))


def _reduced(equation: Any, name: str, value: Laned, params: dict[str, Any]) -> Any:
    array = value.array
    if name == "cumsum" and array.shape[params["axis"]] and not params["reverse"]:
        return _running_sum(array, params["axis"])
    axes, fold = tuple(params.get("axes") or ()), _FOLDS.get(name)
    count = prod(array.shape[axis] for axis in axes) if axes else 0
    if fold is None or not count or (name != "reduce_sum" and count > 2 * _WRITTEN_OUT):
        return bind(equation, [array], params)
    if name == "reduce_sum" and value.truth is not None and count < 2**7:
        array, fold = value.truth, _counted
    rows = jnp.moveaxis(array, axes, range(len(axes)))
    shape = rows.shape[len(axes) :]
    return fold(rows.reshape(count, -1, shape[-1])).reshape(shape).astype(value.array.dtype)


def _counted(rows: Array) -> Array:
    """How many of n < 128 rows [n, ..., L] are true. In eights and a rest: all at once would go into memory first."""
    whole = len(rows) - len(rows) % 8
    parts = [leading_sum(part.astype(np.int8)) for part in (rows[:whole], rows[whole:]) if len(part)]
    return add_up(*parts)


def _written_out(combine: Callable[[Array, Array], Array]) -> Callable[[Array], Array]:
    """A reduction over rows [n, ..., L], written out: XLA's own loop would go along the rows lane by lane."""
    return lambda rows: held(reduce(combine, rows))


_FOLDS: dict[str, Callable] = {
    "reduce_sum": leading_sum,
    "reduce_max": _written_out(lax.max),
    "reduce_min": _written_out(lax.min),
    "reduce_and": _written_out(lax.bitwise_and),
    "reduce_or": _written_out(lax.bitwise_or),
}


def _running_sum(array: Array, axis: int) -> Array:
    """Along that axis; of many rows in a loop, as written out the compiler begins anew for every one of them."""
    rows = jnp.moveaxis(array, axis, 0)
    if len(rows) <= _TOGETHER or len(rows) > _WRITTEN_OUT:
        return jnp.moveaxis(_sums_of_blocks(rows), 0, axis)

    def more(total: Array, row: Array) -> tuple[Array, Array]:
        return total + row, total + row

    nothing = jnp.full(rows.shape[1:], -0.0, rows.dtype)  # x + (-0.0) is x, also for x = -0.0
    return jnp.moveaxis(lax.scan(more, nothing, rows)[1], 0, axis)


def _sums_of_blocks(rows: Array) -> Array:
    """Running sums [n, ..., L] in blocks of 16 rows, then of the blocks: the order in which XLA:CPU adds them."""
    count = len(rows)
    if count <= _TOGETHER:
        return held(jnp.stack(list(accumulate(rows))))
    whole = -(-count // _TOGETHER)
    padded = jnp.concatenate([rows, jnp.zeros((whole * _TOGETHER - count, *rows.shape[1:]), rows.dtype)])
    blocks = jnp.moveaxis(padded.reshape(whole, _TOGETHER, *rows.shape[1:]), 1, 0)
    inside = held(jnp.stack(list(accumulate(blocks))))
    before = jnp.concatenate([jnp.zeros_like(rows[:1]), _sums_of_blocks(inside[-1])[:-1]])
    return jnp.moveaxis(inside + before, 0, 1).reshape(-1, *rows.shape[1:])[:count]


def _contracted(inputs: list[Any], params: dict[str, Any], lanes: int) -> Array | None:
    """Sums of products, the lanes beside each other."""
    (contract, batch), dtype = params["dimension_numbers"], params["preferred_element_type"]
    if any(is_sparse(x) for x in inputs):
        if not batch[0]:
            return _of_few(inputs, contract, dtype)
        inputs = [dense(x) for x in inputs]
    sides = []
    for value, summed, shared in zip(inputs, contract, batch, strict=True):
        array = value.array if isinstance(value, Laned) else jnp.asarray(value)[..., None]
        free = [axis for axis in range(array.ndim - 1) if axis not in (*summed, *shared)]
        array = jnp.transpose(array, (*summed, *shared, *free, array.ndim - 1)).astype(dtype or array.dtype)
        array = held(array) if isinstance(value, Laned) else array
        start, middle = len(summed), len(summed) + len(shared)
        sides.append((array, prod(array.shape[:start]), array.shape[start:middle], array.shape[middle:-1]))
    (a, terms, shared_shape, rows), (b, _, _, columns) = sides
    if not terms:
        return None
    a = a.reshape(terms, *shared_shape, *rows, *(1,) * len(columns), a.shape[-1])
    b = b.reshape(terms, *shared_shape, *(1,) * len(rows), *columns, b.shape[-1])
    together = gcd(terms, _TOGETHER)
    if terms <= _TOGETHER:
        return held(add_up(*(a[i] * b[i] for i in range(terms))))
    nothing = jnp.zeros((*shared_shape, *rows, *columns, lanes), jnp.result_type(a, b))

    def more(turn: Array, total: Array) -> Array:
        some, others = (lax.dynamic_slice_in_dim(x, turn * together, together) for x in (a, b))
        return add_up(total, *(some[i] * others[i] for i in range(together)))

    return lax.fori_loop(0, terms // together, more, nothing)


def _of_few(inputs: list[Any], contract: Any, dtype: Any) -> Array:
    """The same with a matrix that has few numbers other than zero."""
    place = next(i for i, x in enumerate(inputs) if is_sparse(x))
    (matrix, summed), (value, others) = ((inputs[i], tuple(contract[i])) for i in (place, 1 - place))
    array, shape = value.array, np.shape(matrix.dense)
    columns = [axis for axis in range(array.ndim - 1) if axis not in others]
    table = jnp.transpose(array, (*others, *columns, array.ndim - 1)).astype(dtype or array.dtype)
    rows = tuple(n for axis, n in enumerate(shape) if axis not in summed)
    beside = tuple(array.shape[axis] for axis in columns)
    table = held(table.reshape(prod(array.shape[axis] for axis in others), *beside, array.shape[-1]))
    found = product(matrix, summed, table).reshape(*rows, *beside, -1)
    return found if place == 0 else jnp.moveaxis(found, range(len(rows)), range(len(beside), len(beside) + len(rows)))


def _broadcast(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    axes = (*(int(axis) for axis in params["broadcast_dimensions"]), len(shape))
    return lax.broadcast_in_dim(inputs[0].array, (*shape, lanes), axes)


def _reshaped(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    return inputs[0].array.reshape(*shape, lanes)


def _transposed(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    return jnp.transpose(inputs[0].array, (*params["permutation"], len(shape)))


def _joined(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    parts = [_full(x, atom.aval.shape, lanes) for x, atom in zip(inputs, equation.invars, strict=True)]
    return jnp.concatenate(parts, axis=params["dimension"])


def _sliced(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    strides = params["strides"]
    return lax.slice(
        inputs[0].array,
        (*params["start_indices"], 0),
        (*params["limit_indices"], lanes),
        None if strides is None else (*strides, 1),
    )


def _padded(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    if isinstance(inputs[1], Laned):
        return None
    config = [(int(low), int(high), int(inner)) for low, high, inner in params["padding_config"]]
    return lax.pad(inputs[0].array, inputs[1], [*config, (0, 0, 0)])


def _cut(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    if any(isinstance(x, Laned) for x in inputs[1:]):
        return None
    zero = jnp.zeros((), inputs[1].dtype)
    return lax.dynamic_slice(inputs[0].array, (*inputs[1:], zero), (*params["slice_sizes"], lanes))


def _gathered(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    """Rows of a table, one after the other: they are neighbours in memory."""
    table, places = inputs
    numbers, at = params["dimension_numbers"], equation.invars[0].aval.shape
    if numbers.operand_batching_dims or "FILL" in str(params["mode"]):
        return None
    known = len(numbers.collapsed_slice_dims)
    count = len(shape) - (len(at) - known)
    whole = numbers.offset_dims == tuple(range(count, len(shape))) and params["slice_sizes"][known:] == at[known:]
    if not whole or not _leading(numbers.collapsed_slice_dims, numbers.start_index_map, known):
        return None
    if isinstance(places, Laned):
        return _looked_up(table, places.array, at, known, (*shape, lanes))
    rows = held(table.array.reshape(prod(at[:known]), *at[known:], lanes))
    index = _index(places, at[:known], True).reshape(-1)
    nothing = jnp.zeros((index.shape[0], *rows.shape[1:]), rows.dtype)

    def copied(i: Array, found: Array) -> Array:
        row = lax.dynamic_index_in_dim(rows, index[i], 0, keepdims=False)
        return lax.dynamic_update_index_in_dim(found, row, i, 0)

    return lax.fori_loop(0, index.shape[0], copied, nothing).reshape(*shape, lanes)


def _looked_up(table: Any, places: Array, at: tuple[int, ...], known: int, shape: tuple[int, ...]) -> Any:
    """Every lane looks a row of its own up: by a comparison with each place."""
    count = prod(at[:known])
    if count > _WRITTEN_OUT:
        return None
    array = table.array if isinstance(table, Laned) else jnp.asarray(table)[..., None]
    rows = array.reshape(count, *at[known:], array.shape[-1])
    index = held(_index(jnp.moveaxis(places, -2, -1), at[:known], True))
    index = index.reshape(-1, *(1,) * (len(at) - known), shape[-1])
    found = jnp.broadcast_to(rows[0], (index.shape[0], *at[known:], shape[-1]))
    for place in range(1, count):
        found = jnp.where(index == place, rows[place], found)
    return held(found).reshape(shape)


def _scattered(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    """The reverse: rows added up where they belong."""
    table, places, updates = inputs
    numbers, at = params["dimension_numbers"], equation.invars[2].aval.shape
    if isinstance(places, Laned) or numbers.operand_batching_dims or "FILL" in str(params["mode"]):
        return None
    known = len(numbers.inserted_window_dims)
    count = len(at) - (len(shape) - known)
    whole = numbers.update_window_dims == tuple(range(count, len(at))) and at[count:] == shape[known:]
    if not whole or not _leading(numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims, known):
        return None
    index = _index(places, shape[:known], "CLIP" in str(params["mode"])).reshape(-1)
    rows = held(_full(updates, at, lanes).reshape(index.shape[0], *shape[known:], lanes))
    start = _full(table, shape, lanes).reshape(prod(shape[:known]), *shape[known:], lanes)

    def added(i: Array, found: Array) -> Array:
        row = lax.dynamic_index_in_dim(found, index[i], 0, keepdims=False) + rows[i]
        return lax.dynamic_update_index_in_dim(found, row, index[i], 0)

    return lax.fori_loop(0, index.shape[0], added, start).reshape(*shape, lanes)


def _log1p(equation: Any, inputs: list[Any], params: dict[str, Any], shape: Any, lanes: int) -> Any:
    """XLA's takes two fifths of a step of a policy with `jax.nn.log_sigmoid`."""
    return log1p(inputs[0].array)


def _leading(removed: tuple[int, ...], mapped: tuple[int, ...], count: int) -> bool:
    return tuple(removed) == tuple(mapped) == tuple(range(count))


def _index(places: Array, shape: tuple[int, ...], clipped: bool) -> Array:
    """Places [..., n] in the leading axes of that shape, as places [...] in all of them together.

    clipped: a place beyond an end is the one at that end, as it is where JAX reads.
    """
    if places.dtype.itemsize < 4:
        places = places.astype(np.int32)
    if clipped:
        places = jnp.clip(places, 0, np.array(shape) - 1).astype(places.dtype)
    strides = [places.dtype.type(prod(shape[i + 1 :])) for i in range(len(shape))]
    return add_up(*(places[..., i] * stride for i, stride in enumerate(strides)))


RULES: dict[str, Callable] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "transpose": _transposed,
    "concatenate": _joined,
    "slice": _sliced,
    "pad": _padded,
    "dynamic_slice": _cut,
    "gather": _gathered,
    "scatter-add": _scattered,
    "log1p": _log1p,
}
