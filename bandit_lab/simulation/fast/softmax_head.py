"""Policies with a softmax: `log_policy` cut where `jax.nn.log_softmax` is called, which is then done by the engine."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bandit_lab._types import Array

Function = Callable[[Array], Array]


def cut_at_softmax(log_policy: Function, theta: Array) -> tuple[Function, Function | None] | None:
    """(before, after) with log_policy(theta) = after(log_softmax(before(theta))), the softmax over the last axis.

    after: None where nothing follows. None where this only call of `jax.nn.log_softmax` is not all that it knows of
    theta. It has to be that call itself, so that a policy is never taken for what it is not.
    """
    closed = jax.make_jaxpr(log_policy)(theta)
    jaxpr = closed.jaxpr
    calls = [equation for equation in jaxpr.eqns if _is_softmax(equation)]
    if len(calls) != 1:
        return None
    (call,) = calls

    before, after = _between(jaxpr, jaxpr.invars, call.invars), _between(jaxpr, call.outvars, jaxpr.outvars)
    if before is None or after is None:
        return None

    def function(equations: list[Any], start: list[Any], end: list[Any]) -> Function:
        part = closed.replace(jaxpr=jaxpr.replace(eqns=equations, invars=start, outvars=end))
        return lambda x: jax.core.eval_jaxpr(part.jaxpr, part.consts, x)[0]

    ends = list(jaxpr.outvars) == list(call.outvars)
    last = None if ends else function(after, call.outvars, jaxpr.outvars)
    return function(before, jaxpr.invars, call.invars), last


def _is_softmax(equation: Any) -> bool:
    """Whether an operation is `jax.nn.log_softmax` over the last axis."""
    given: Any = equation.invars[0].aval if len(equation.invars) == 1 else None
    if not isinstance(given, ShapedArray) or given.ndim == 0 or not jnp.issubdtype(given.dtype, jnp.floating):
        return False
    primitive, written = _softmax_of(given.shape, given.dtype)
    return equation.primitive is primitive and _written(equation) == written


@cache
def _softmax_of(shape: tuple[int, ...], dtype: Any) -> tuple[Any, str]:
    """The operation that `jax.nn.log_softmax` of such an array is, and how it is written; (None, "") if it is several.

    A network has hundreds of operations, and its function is cut at every compilation: each kind is traced once.
    """
    model = jax.make_jaxpr(lambda x: jax.nn.log_softmax(x, axis=-1))(jax.ShapeDtypeStruct(shape, dtype)).jaxpr.eqns
    return (model[0].primitive, _written(model[0])) if len(model) == 1 else (None, "")


def _between(jaxpr: Any, start: list[Any], end: list[Any]) -> list[Any] | None:
    """The operations that lead from `start` and constants to `end`; None where these are not enough."""
    from jax.extend.core import Literal  # with it comes Pallas, which nobody else needs

    wanted = {atom for atom in end if not isinstance(atom, Literal)} - set(start)
    operations = []
    for equation in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(equation.outvars):
            wanted.difference_update(equation.outvars)
            wanted.update(atom for atom in equation.invars if not isinstance(atom, Literal) and atom not in start)
            operations.append(equation)
    return operations[::-1] if wanted <= set(jaxpr.constvars) else None


def _written(equation: Any) -> str:
    return str(equation.params.get("jaxpr"))
