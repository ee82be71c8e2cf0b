"""Loops of `lanes_last`: one loop over steps of all lanes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bandit_lab.simulation.laned import Laned, bare, bare_as, carries_keys, like, spread

_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CALLED = ("closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint")
_CALLED_BY_JIT = ("jit", "pjit", "remat", "remat2")

Evaluate = Callable[[Any, Sequence[Any], Sequence[Any], int], list[Any]]
"""(jaxpr, its constants, inputs, lanes) -> outputs."""


def called_by(equation: Any) -> tuple[Any, Sequence[Any]] | None:
    """The jaxpr of the function that an equation calls, and its constants. None where it calls none."""
    if equation.primitive.name not in (*_CALLED, *_CALLED_BY_JIT):
        return None
    inner = next(equation.params[key] for key in _CALLS if key in equation.params)
    return getattr(inner, "jaxpr", inner), inner.consts if hasattr(inner, "consts") else ()


def scanned(evaluate: Evaluate, params: dict[str, Any], inputs: list[Any], lanes: int) -> list[Any] | None:
    """A loop of known length over steps of all lanes. None where it is left to `jax.vmap`: no step, or carried keys."""
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, rows = inputs[:first], inputs[last:]
    body, count = params["jaxpr"], last - first
    if params["length"] == 0 or any(carries_keys(x) for x in inputs[first:]):
        return None
    start = _begun(body, consts, inputs[first:last], rows, lanes)
    flags: list[bool] = []

    def step(state: Any, row: Any) -> tuple[Any, Any]:
        given = [*consts, *like(start, state), *like(rows, row)]
        found = evaluate(body.jaxpr, body.consts, given, lanes)
        flags[:] = [isinstance(x, Laned) for x in found[count:]]
        return bare_as(start, found[:count], lanes), [bare(x) for x in found[count:]]

    options = {"length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"]}
    end, kept = lax.scan(step, [bare(x) for x in start], [bare(x) for x in rows], **options)
    return [*like(start, end), *(Laned(x) if f else x for x, f in zip(kept, flags, strict=True))]


def repeated(evaluate: Evaluate, params: dict[str, Any], inputs: list[Any], lanes: int) -> list[Any] | None:
    """A loop until a condition that all lanes share. None where each has its own, or keys are carried."""
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    body, condition = params["body_jaxpr"], params["cond_jaxpr"]
    if any(carries_keys(x) for x in inputs[last:]):
        return None
    start = _begun(body, inputs[first:last], inputs[last:], [], lanes)
    if differing(condition.jaxpr, _flags([*inputs[:first], *start]))[0]:
        return None

    def goes_on(state: Sequence[Any]) -> Any:
        return evaluate(condition.jaxpr, condition.consts, [*inputs[:first], *like(start, state)], lanes)[0]

    def once(state: Sequence[Any]) -> Sequence[Any]:
        found = evaluate(body.jaxpr, body.consts, [*inputs[first:last], *like(start, state)], lanes)
        return bare_as(start, found, lanes)

    return like(start, lax.while_loop(goes_on, once, [bare(x) for x in start]))


def _flags(values: Sequence[Any]) -> list[bool]:
    return [isinstance(x, Laned) for x in values]


def _begun(body: Any, consts: list[Any], state: list[Any], rows: list[Any], lanes: int) -> list[Any]:
    """The state before a loop, with lanes wherever some turn of the loop brings them in."""
    flags = _carried(body.jaxpr, _flags(consts), _flags(state), _flags(rows))
    return [Laned(spread(x, lanes)) if flag else x for x, flag in zip(state, flags, strict=True)]


def _carried(body: Any, consts: list[bool], state: list[bool], rows: list[bool]) -> list[bool]:
    """Which values that a loop carries differ from lane to lane, where some did before it."""
    found = differing(body, [*consts, *state, *rows])[: len(state)]
    grown = [before or after for before, after in zip(state, found, strict=True)]
    return state if grown == state else _carried(body, consts, grown, rows)


def differing(jaxpr: Any, given: Sequence[bool]) -> list[bool]:
    """Which outputs of a jaxpr may differ from lane to lane, where those of its inputs do. Nothing is traced."""
    known = {atom for atom, flag in zip(jaxpr.invars, given, strict=True) if flag}

    def differs(atom: Any) -> bool:
        return not hasattr(atom, "val") and atom in known

    for equation in jaxpr.eqns:
        flags, inner = [differs(atom) for atom in equation.invars], called_by(equation)
        if not any(flags):
            continue
        found = _out_of_loop(equation, flags) if inner is None else differing(inner[0], flags)
        known.update(atom for atom, flag in zip(equation.outvars, found, strict=True) if flag)
    return [differs(atom) for atom in jaxpr.outvars]


def _out_of_loop(equation: Any, flags: list[bool]) -> list[bool]:
    """The same for the outputs of a loop. All may differ of another operation, and where it is left to `jax.vmap`."""
    name, params, body = equation.primitive.name, equation.params, equation.params.get("jaxpr")
    every = [True] * len(equation.outvars)
    if name == "scan" and params["length"] > 0 and not _keys(equation.invars[params["num_consts"] :]):
        first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
        consts, rows = flags[:first], flags[last:]
        state = _carried(body.jaxpr, consts, flags[first:last], rows)
        return [*state, *differing(body.jaxpr, [*consts, *state, *rows])[len(state) :]]
    if name == "while":
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        state = _carried(params["body_jaxpr"].jaxpr, flags[first:last], flags[last:], [])
        own = differing(params["cond_jaxpr"].jaxpr, [*flags[:first], *state])[0]
        return every if own or _keys(equation.invars[last:]) else state
    return every


def _keys(atoms: Sequence[Any]) -> bool:
    return any(jnp.issubdtype(atom.aval.dtype, jax.dtypes.prng_key) for atom in atoms)
