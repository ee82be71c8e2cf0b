"""A function of one lane for all lanes at once, with the lanes as the last axis of every array.

`jax.vmap` gives the same numbers, but many of its rules (for `concatenate`, `gather`, `dot_general`) move the lanes to
the front. Vector registers then hold neighbouring arms instead of neighbouring seeds, and a step takes several times as
long. Here the operations of the function are carried out one by one on arrays [..., L]. An operation without a rule
of its own, such as a sort, is left to `jax.vmap`. Keys of `jax.random` come as two words each: a NamedTuple of `a` and
`b` [..., L] with the methods of `jax_keys.JaxKeys`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bandit_lab._barrier import materialize
from bandit_lab._numerics import add_up, leading_max, leading_sum
from bandit_lab._types import Array

_NAMES = """abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp clz convert_element_type copy
    cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p
    logistic lt max min mul ne neg nextafter not or population_count pow rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor"""
_ELEMENTWISE = frozenset(_NAMES.split())
_CHEAP = frozenset(["add", "add_any", "max", "min", "mul", "neg", "select_n", "sub"])
"""Operations that a compiler repeats for every use of their result unless it is held in memory."""
_AXES = """argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum rev split squeeze"""
_SAME_AXES = frozenset(_AXES.split())
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CALLED = ("closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint")
_CALLED_BY_JIT = ("jit", "pjit", "remat", "remat2")
_WRITTEN_OUT = 64  # rows of a running sum, or of a table that every lane looks up by itself
_TOGETHER = 16  # products of a contraction in one expression, at most


class Laned:
    """An array [..., L], or keys, that stands for one value [...] per lane."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def is_key(self) -> bool:
        """Whether these are keys of `jax.random`."""
        return _is_keys(self.array)


def over_lanes(function: Callable, laned: Sequence[bool], *arguments: Any) -> Any:
    """function(*arguments), where the arrays of an argument with `laned` have the lanes as their last axis.

    Gives the function's result with `Laned` in place of every array that differs from lane to lane.
    """
    flags = [flag for flag, one in zip(laned, arguments, strict=True) for _ in jax.tree.leaves(one, is_leaf=_is_keys)]
    leaves, tree = jax.tree.flatten(arguments, is_leaf=_is_keys)
    single = [_of_one_lane(x) if f else jax.typeof(x) for x, f in zip(leaves, flags, strict=True)]
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(tree, single))
    lanes = next(_first(x).shape[-1] for x, f in zip(leaves, flags, strict=True) if f)
    given = [Laned(x) if f else x for x, f in zip(leaves, flags, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(shape), _evaluate(closed.jaxpr, closed.consts, given, lanes))


def _is_keys(value: Any) -> bool:
    return hasattr(value, "as_keys")


def _first(value: Any) -> Array:
    return value.a if _is_keys(value) else value


def _of_one_lane(value: Any) -> Any:
    """Shape and type of what one lane has."""
    if _is_keys(value):
        typed = jax.eval_shape(lambda: value._replace(a=value.a[..., :1], b=value.b[..., :1]).as_keys())
        return jax.ShapeDtypeStruct(typed.shape[:-1], typed.dtype)
    return jax.ShapeDtypeStruct(value.shape[:-1], value.dtype)


def spread(value: Any, lanes: int) -> Array:
    """The array [..., L] of a result of `over_lanes`, whether or not it differs from lane to lane."""
    return value.array if isinstance(value, Laned) else jnp.broadcast_to(value[..., None], (*np.shape(value), lanes))


def _evaluate(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], lanes: int) -> list[Any]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else known[atom]

    uses = Counter(atom for equation in jaxpr.eqns for atom in equation.invars if not hasattr(atom, "val"))
    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        found = _apply(equation, inputs, lanes)
        if equation.primitive.name in _CHEAP and uses[equation.outvars[0]] > 1 and isinstance(found[0], Laned):
            found = [Laned(materialize(found[0].array))]
        known.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: Any, inputs: list[Any], lanes: int) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name in (*_CALLED, *_CALLED_BY_JIT):
        inner = next(params[key] for key in _CALLS if key in params)
        consts = inner.consts if hasattr(inner, "consts") else ()
        return _evaluate(getattr(inner, "jaxpr", inner), consts, inputs, lanes)
    if name in ("scan", "while"):
        looped = _scanned(params, inputs, lanes) if name == "scan" else _repeated(params, inputs, lanes)
        if looped is not None:
            return looped
    several = equation.primitive.multiple_results
    if not any(isinstance(x, Laned) for x in inputs):
        found = _bind(equation, inputs, params)
        return list(found) if several else [found]
    if any(isinstance(x, Laned) and x.is_key for x in inputs):
        return _of_keys(equation, name, inputs, params, lanes)
    found = _by_rule(equation, name, inputs, params, lanes)
    if found is None:
        found = _mapped(equation, inputs, params)
    return [Laned(x) for x in (found if several else [found])]


def _scanned(params: dict[str, Any], inputs: list[Any], lanes: int) -> list[Any] | None:
    """A loop of known length over steps of all lanes. None where keys are carried from step to step."""
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, carried, rows = inputs[:first], inputs[first:last], inputs[last:]
    body, count = params["jaxpr"], last - first

    def once(state: list[Any], row: list[Any]) -> list[Any]:
        return _evaluate(body.jaxpr, body.consts, [*consts, *state, *row], lanes)

    if any(_carries_keys(x) for x in inputs[first:]):
        return None
    row = [jax.tree.map(lambda x: x[0], _bare(x)) for x in rows]
    state = _settled(lambda state: once(state, _like(rows, row))[:count], carried, lanes)
    flags: list[bool] = []

    def step(state: Any, row: Any) -> tuple[Any, Any]:
        found = once(_like(start, state), _like(rows, row))
        flags[:] = [isinstance(x, Laned) for x in found[count:]]
        return _bare_as(start, found[:count], lanes), [_bare(x) for x in found[count:]]

    start = state
    options = {"length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"]}
    end, kept = lax.scan(step, [_bare(x) for x in start], [_bare(x) for x in rows], **options)
    return [*_like(start, end), *(Laned(x) if f else x for x, f in zip(kept, flags, strict=True))]


def _repeated(params: dict[str, Any], inputs: list[Any], lanes: int) -> list[Any] | None:
    """A loop until a condition that all lanes share. None where each has its own, or keys are carried."""
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    body, condition = params["body_jaxpr"], params["cond_jaxpr"]

    def once(state: list[Any]) -> list[Any]:
        return _evaluate(body.jaxpr, body.consts, [*inputs[first:last], *state], lanes)

    def goes_on(state: list[Any]) -> Any:
        return _evaluate(condition.jaxpr, condition.consts, [*inputs[:first], *state], lanes)[0]

    if any(_carries_keys(x) for x in inputs[last:]):
        return None
    start = _settled(once, inputs[last:], lanes)
    own: list[bool] = []
    jax.eval_shape(lambda state: own.append(isinstance(goes_on(_like(start, state)), Laned)), [_bare(x) for x in start])
    if own[0]:
        return None
    end = lax.while_loop(
        lambda state: goes_on(_like(start, state)),
        lambda state: _bare_as(start, once(_like(start, state)), lanes),
        [_bare(x) for x in start],
    )
    return _like(start, end)


def _settled(once: Callable[[list[Any]], list[Any]], state: list[Any], lanes: int) -> list[Any]:
    """The state before a loop, with lanes wherever some turn of the loop brings them in."""
    while True:
        found: list[bool] = []

        def look(bare: list[Any], state: list[Any] = state, found: list[bool] = found) -> None:
            found[:] = [isinstance(x, Laned) for x in once(_like(state, bare))]

        jax.eval_shape(look, [_bare(x) for x in state])
        if all(isinstance(x, Laned) or not f for x, f in zip(state, found, strict=True)):
            return state
        state = [Laned(spread(x, lanes)) if f else x for x, f in zip(state, found, strict=True)]


def _carries_keys(value: Any) -> bool:
    bare = _bare(value)
    return _is_keys(bare) or jnp.issubdtype(jnp.asarray(bare).dtype, jax.dtypes.prng_key)


def _bare(value: Any) -> Any:
    return value.array if isinstance(value, Laned) else value


def _like(model: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Values as `Laned` where those of the model are."""
    return [Laned(x) if isinstance(m, Laned) else x for m, x in zip(model, values, strict=True)]


def _bare_as(model: Sequence[Any], values: Sequence[Any], lanes: int) -> list[Any]:
    """Arrays, with lanes where the model has them."""
    return [spread(x, lanes) if isinstance(m, Laned) else x for m, x in zip(model, values, strict=True)]


def _of_keys(equation: Any, name: str, inputs: list[Any], params: dict[str, Any], lanes: int) -> list[Any]:
    """Operations on keys of `jax.random`: those that draw, and those that only move keys about."""
    keys: Any = inputs[0].array if isinstance(inputs[0], Laned) else None
    if name == "random_bits":
        return [Laned(keys.bits(params["bit_width"], tuple(params["shape"])))]
    if name == "random_split":
        return [Laned(keys.split(tuple(params["shape"])))]
    if name == "random_fold_in" and not isinstance(inputs[1], Laned) and np.ndim(inputs[1]) == 0:
        return [Laned(keys.folded(inputs[1]))]
    if len(inputs) == 1 and name in (*_RULES, "squeeze", "rev") and len(equation.outvars) == 1:
        a, b = (_by_rule(equation, name, [Laned(x)], params, lanes) for x in (keys.a, keys.b))
        return [Laned(keys._replace(a=a, b=b))]
    like = next(x.array for x in inputs if isinstance(x, Laned) and x.is_key)
    typed = [Laned(x.array.as_keys()) if isinstance(x, Laned) and x.is_key else x for x in inputs]
    found = _mapped(equation, typed, params)
    results = found if equation.primitive.multiple_results else [found]
    return [Laned(like.of_keys(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x) for x in results]


def _bind(equation: Any, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    return equation.primitive.bind(*inputs, **params)


def _mapped(equation: Any, inputs: list[Any], params: dict[str, Any]) -> Any:
    """By `jax.vmap`."""
    axes = [-1 if isinstance(x, Laned) else None for x in inputs]
    arrays = [x.array if isinstance(x, Laned) else x for x in inputs]
    return jax.vmap(lambda *given: _bind(equation, given, params), axes, -1)(*arrays)


def _by_rule(equation: Any, name: str, inputs: list[Any], params: dict[str, Any], lanes: int) -> Any:
    """The result(s) with the lanes last, or None where there is no rule."""
    shape, first = equation.outvars[0].aval.shape, inputs[0]
    if name in _ELEMENTWISE:
        return _bind(equation, [_full(x, shape, lanes) for x in inputs], params)
    if name in _SAME_AXES:
        return _reduced(equation, name, first.array, params)
    if name == "dot_general":
        return _contracted(inputs, params, lanes)
    rule = _RULES.get(name)
    return None if rule is None else rule(equation, inputs, params, shape, lanes)


def _full(value: Any, shape: tuple[int, ...], lanes: int) -> Array:
    """A value of that shape, or a scalar, as [..., L]."""
    array = value.array if isinstance(value, Laned) else jnp.asarray(value)[..., None]
    if array.ndim == 1 and shape:
        array = array.reshape(*(1,) * len(shape), -1)
    return jnp.broadcast_to(array, (*shape, lanes))


def _reduced(equation: Any, name: str, array: Array, params: dict[str, Any]) -> Any:
    if name == "cumsum" and array.shape[params["axis"]] <= _WRITTEN_OUT and not params["reverse"]:
        return _running_sum(array, params["axis"])
    axes, fold = params.get("axes"), _FOLDS.get(name)
    if (
        fold is None
        or not axes
        or (name in ("reduce_max", "reduce_min") and not jnp.issubdtype(array.dtype, jnp.floating))
    ):
        return _bind(equation, [array], params)
    moved = jnp.moveaxis(array, axes, range(len(axes)))
    rows = moved.reshape(prod(moved.shape[: len(axes)]), *moved.shape[len(axes) :])
    return fold(rows)


def _all(rows: Array) -> Array:
    """Bitwise and of rows [n, ..., L], written out: XLA's own loop would go along the rows lane by lane."""
    found = rows[0]
    for row in rows[1:]:
        found = found & row
    return materialize(found) if found.dtype != bool else found


def _lowest(rows: Array) -> Array:
    """Minimum over the leading axis."""
    return -leading_max(-rows)


_FOLDS: dict[str, Callable] = {
    "reduce_sum": leading_sum,
    "reduce_max": leading_max,
    "reduce_min": _lowest,
    "reduce_and": _all,
}


def _running_sum(array: Array, axis: int) -> Array:
    rows = jnp.moveaxis(array, axis, 0)
    sums = [rows[0]]
    for row in rows[1:]:
        sums.append(sums[-1] + row)
    return jnp.moveaxis(materialize(jnp.stack(sums)), 0, axis)


def _contracted(inputs: list[Any], params: dict[str, Any], lanes: int) -> Array:
    """Sums of products, the lanes beside each other."""
    (contract, batch), dtype = params["dimension_numbers"], params["preferred_element_type"]
    sides = []
    for value, summed, shared in zip(inputs, contract, batch, strict=True):
        array = value.array if isinstance(value, Laned) else jnp.asarray(value)[..., None]
        free = [axis for axis in range(array.ndim - 1) if axis not in (*summed, *shared)]
        array = jnp.transpose(array, (*summed, *shared, *free, array.ndim - 1)).astype(dtype or array.dtype)
        array = materialize(array) if isinstance(value, Laned) else array
        start, middle = len(summed), len(summed) + len(shared)
        sides.append((array, prod(array.shape[:start]), array.shape[start:middle], array.shape[middle:-1]))
    (a, terms, shared_shape, rows), (b, _, _, columns) = sides
    a = a.reshape(terms, *shared_shape, *rows, *(1,) * len(columns), a.shape[-1])
    b = b.reshape(terms, *shared_shape, *(1,) * len(rows), *columns, b.shape[-1])
    together = gcd(terms, _TOGETHER)
    if terms <= _TOGETHER:
        return materialize(add_up(*(a[i] * b[i] for i in range(terms))))
    nothing = jnp.zeros((*shared_shape, *rows, *columns, lanes), jnp.result_type(a, b))

    def more(turn: Array, total: Array) -> Array:
        some, others = (lax.dynamic_slice_in_dim(x, turn * together, together) for x in (a, b))
        return add_up(total, *(some[i] * others[i] for i in range(together)))

    return lax.fori_loop(0, terms // together, more, nothing)


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
    rows = materialize(table.array.reshape(prod(at[:known]), *at[known:], lanes))
    index = _index(places, at[:known]).reshape(-1)
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
    index = materialize(_index(jnp.moveaxis(places, -2, -1), at[:known]))
    index = index.reshape(-1, *(1,) * (len(at) - known), shape[-1])
    found = jnp.broadcast_to(rows[0], (index.shape[0], *at[known:], shape[-1]))
    for place in range(1, count):
        found = jnp.where(index == place, rows[place], found)
    return materialize(found).reshape(shape)


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
    index = _index(places, shape[:known]).reshape(-1)
    rows = materialize(_full(updates, at, lanes).reshape(index.shape[0], *shape[known:], lanes))
    start = _full(table, shape, lanes).reshape(prod(shape[:known]), *shape[known:], lanes)

    def added(i: Array, found: Array) -> Array:
        row = lax.dynamic_index_in_dim(found, index[i], 0, keepdims=False) + rows[i]
        return lax.dynamic_update_index_in_dim(found, row, index[i], 0)

    return lax.fori_loop(0, index.shape[0], added, start).reshape(*shape, lanes)


def _leading(removed: tuple[int, ...], mapped: tuple[int, ...], count: int) -> bool:
    return tuple(removed) == tuple(mapped) == tuple(range(count))


def _index(places: Array, shape: tuple[int, ...]) -> Array:
    """Places [..., n] in the leading axes of that shape, as places [...] in all of them together."""
    strides = [places.dtype.type(prod(shape[i + 1 :])) for i in range(len(shape))]
    return add_up(*(places[..., i] * stride for i, stride in enumerate(strides)))


_RULES: dict[str, Callable] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "transpose": _transposed,
    "concatenate": _joined,
    "slice": _sliced,
    "pad": _padded,
    "dynamic_slice": _cut,
    "gather": _gathered,
    "scatter-add": _scattered,
}
