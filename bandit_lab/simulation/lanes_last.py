"""A function of one lane for all lanes at once, with the lanes as the last axis of every array.

`jax.vmap` gives the same numbers, but many of its rules (for `concatenate`, `gather`, `dot_general`) move the lanes to
the front. Vector registers then hold neighbouring arms instead of neighbouring seeds, and a step takes several times as
long. Here the operations of the function are carried out one by one on arrays [..., L]. An operation without a rule
of its own, such as a sort, is left to `jax.vmap`. Keys of `jax.random` come as two words each: a NamedTuple of `a` and
`b` [..., L] with the methods of `jax_keys.JaxKeys`. Products with a `Sparse` matrix (`lane_sparse`) skip its zeros.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.simulation.lane_loops import called_by, repeated, scanned
from bandit_lab.simulation.lane_rules import RULES, bind, by_rule
from bandit_lab.simulation.lane_sparse import dense, is_sparse
from bandit_lab.simulation.laned import Laned, carries_keys, held, is_keys, spread

__all__ = ["Laned", "over_lanes", "spread"]


_CHEAP = frozenset(["add", "add_any", "max", "min", "mul", "neg", "select_n", "sub"])
"""Operations that a compiler repeats for every use of their result unless it is held in memory."""


def over_lanes(function: Callable, laned: Sequence[bool], *arguments: Any) -> Any:
    """function(*arguments), where the arrays of an argument with `laned` have the lanes as their last axis.

    Gives the function's result with `Laned` in place of every array that differs from lane to lane.
    """
    flags = [flag for flag, one in zip(laned, arguments, strict=True) for _ in jax.tree.leaves(one, is_leaf=_whole)]
    leaves, tree = jax.tree.flatten(arguments, is_leaf=_whole)
    single = [_of_one_lane(x) if f else jax.typeof(dense(x)) for x, f in zip(leaves, flags, strict=True)]
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(tree, single))
    lanes = next(_first(x).shape[-1] for x, f in zip(leaves, flags, strict=True) if f)
    given = [Laned(x) if f else x for x, f in zip(leaves, flags, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(shape), _evaluate(closed.jaxpr, closed.consts, given, lanes))


def _whole(value: Any) -> bool:
    return is_keys(value) or is_sparse(value)


def _first(value: Any) -> Array:
    return value.a if is_keys(value) else value


def _of_one_lane(value: Any) -> Any:
    """Shape and type of what one lane has."""
    if is_keys(value):
        typed = jax.eval_shape(lambda: value._replace(a=value.a[..., :1], b=value.b[..., :1]).as_keys())
        return jax.ShapeDtypeStruct(typed.shape[:-1], typed.dtype)
    return jax.ShapeDtypeStruct(value.shape[:-1], value.dtype)


def _evaluate(
    jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], lanes: int, seen: dict[Any, Any] | None = None
) -> list[Any]:
    """Outputs of a jaxpr. seen: what operations gave so far in this trace; a loop's body is a trace of its own."""
    seen = {} if seen is None else seen
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=True))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if hasattr(atom, "val") else known[atom]

    uses = Counter(atom for equation in jaxpr.eqns for atom in equation.invars if not hasattr(atom, "val"))
    for equation in _needed(jaxpr):
        inputs = [read(atom) for atom in equation.invars]
        called = called_by(equation)
        found = _evaluate(*called, inputs, lanes, seen) if called else _once(equation, inputs, lanes, seen)
        repeated_work = equation.primitive.name in _CHEAP and uses[equation.outvars[0]] > 1
        if repeated_work and isinstance(found[0], Laned) and not carries_keys(found[0]) and found[0].before is None:
            found[0] = Laned(held(found[0].array), before=found[0].array)  # in `seen` too: held once
        known.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _once(equation: Any, inputs: list[Any], lanes: int, seen: dict[Any, Any]) -> list[Any]:
    """What an operation gives: what it gave before in this trace, if it was carried out on the same inputs.

    A step that draws by a policy and then differentiates it holds the policy twice. XLA finds such repetitions too
    late: it moves parts of one of them out of the loop first.
    """
    key = equation.primitive, tuple(equation.params.items()), tuple(map(_identity, inputs))
    try:
        hash(key)
    except TypeError:
        return _apply(equation, inputs, lanes)
    if equation.effects or key not in seen:
        seen[key] = _apply(equation, inputs, lanes), inputs
    return seen[key][0]


def _identity(value: Any) -> Any:
    """Equal for two values only if they are the same. The first is to be kept for as long."""
    if isinstance(value, Laned):
        return id(value.array if value.before is None else value.before)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.dtype, value.tobytes()
    return id(value)


def _needed(jaxpr: Any) -> list[Any]:
    """The equations on which an output depends, or that do something outside."""
    wanted, found = {atom for atom in jaxpr.outvars if not hasattr(atom, "val")}, []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not wanted.isdisjoint(equation.outvars):
            wanted.update(atom for atom in equation.invars if not hasattr(atom, "val"))
            found.append(equation)
    return found[::-1]


def _apply(equation: Any, inputs: list[Any], lanes: int) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name != "dot_general":
        inputs = [dense(x) for x in inputs]
    if name in ("scan", "while"):
        looped = (scanned if name == "scan" else repeated)(_evaluate, params, inputs, lanes)
        if looped is not None:
            return looped
    several = equation.primitive.multiple_results
    if not any(isinstance(x, Laned) for x in inputs):
        found = bind(equation, [dense(x) for x in inputs], params)
        return list(found) if several else [found]
    if any(isinstance(x, Laned) and x.is_key for x in inputs):
        return _of_keys(equation, name, inputs, params, lanes)
    found = by_rule(equation, name, inputs, params, lanes)
    if found is None:
        found = _vmapped(equation, inputs, params)
    if name == "convert_element_type":
        given = inputs[0]
        return [Laned(found, given.array if given.array.dtype == bool else given.truth)]
    return [Laned(x) for x in (found if several else [found])]


def _of_keys(equation: Any, name: str, inputs: list[Any], params: dict[str, Any], lanes: int) -> list[Any]:
    """Operations on keys of `jax.random`: those that draw, and those that only move keys about."""
    keys: Any = inputs[0].array if isinstance(inputs[0], Laned) else None
    if name == "random_bits":
        return [Laned(keys.bits(params["bit_width"], tuple(params["shape"])))]
    if name == "random_split":
        return [Laned(keys.split(tuple(params["shape"])))]
    if name == "random_fold_in" and not isinstance(inputs[1], Laned) and np.ndim(inputs[1]) == 0:
        return [Laned(keys.folded(inputs[1]))]
    if len(inputs) == 1 and name in (*RULES, "squeeze", "rev") and len(equation.outvars) == 1:
        a, b = (by_rule(equation, name, [Laned(x)], params, lanes) for x in (keys.a, keys.b))
        return [Laned(keys._replace(a=a, b=b))]
    model = next(x.array for x in inputs if isinstance(x, Laned) and x.is_key)
    typed = [Laned(x.array.as_keys()) if isinstance(x, Laned) and x.is_key else x for x in inputs]
    found = _vmapped(equation, typed, params)
    results = found if equation.primitive.multiple_results else [found]
    return [Laned(model.of_keys(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x) for x in results]


def _vmapped(equation: Any, inputs: list[Any], params: dict[str, Any]) -> Any:
    axes = [-1 if isinstance(x, Laned) else None for x in inputs]
    arrays = [x.array if isinstance(x, Laned) else x for x in inputs]
    return jax.vmap(lambda *given: bind(equation, given, params), axes, -1)(*arrays)
