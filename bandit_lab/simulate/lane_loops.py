"""Loops of `lanes_last`: one loop over steps of all lanes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax

from bandit_lab.simulate.laned import Laned, bare, bare_as, carries_keys, like, spread

Evaluate = Callable[[Any, Sequence[Any], Sequence[Any], int], list[Any]]
"""(jaxpr, its constants, inputs, lanes) -> outputs."""


def scanned(evaluate: Evaluate, params: dict[str, Any], inputs: list[Any], lanes: int) -> list[Any] | None:
    """A loop of known length over steps of all lanes. None where it is left to `jax.vmap`: no step, or carried keys."""
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, carried, rows = inputs[:first], inputs[first:last], inputs[last:]
    body, count = params["jaxpr"], last - first

    def once(state: list[Any], row: list[Any]) -> list[Any]:
        return evaluate(body.jaxpr, body.consts, [*consts, *state, *row], lanes)

    if params["length"] == 0 or any(carries_keys(x) for x in inputs[first:]):
        return None
    row = [jax.tree.map(lambda x: x[0], bare(x)) for x in rows]
    state = _settled(lambda state: once(state, like(rows, row))[:count], carried, lanes)
    flags: list[bool] = []

    def step(state: Any, row: Any) -> tuple[Any, Any]:
        found = once(like(start, state), like(rows, row))
        flags[:] = [isinstance(x, Laned) for x in found[count:]]
        return bare_as(start, found[:count], lanes), [bare(x) for x in found[count:]]

    start = state
    options = {"length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"]}
    end, kept = lax.scan(step, [bare(x) for x in start], [bare(x) for x in rows], **options)
    return [*like(start, end), *(Laned(x) if f else x for x, f in zip(kept, flags, strict=True))]


def repeated(evaluate: Evaluate, params: dict[str, Any], inputs: list[Any], lanes: int) -> list[Any] | None:
    """A loop until a condition that all lanes share. None where each has its own, or keys are carried."""
    first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    body, condition = params["body_jaxpr"], params["cond_jaxpr"]

    def once(state: list[Any]) -> list[Any]:
        return evaluate(body.jaxpr, body.consts, [*inputs[first:last], *state], lanes)

    def goes_on(state: list[Any]) -> Any:
        return evaluate(condition.jaxpr, condition.consts, [*inputs[:first], *state], lanes)[0]

    if any(carries_keys(x) for x in inputs[last:]):
        return None
    start = _settled(once, inputs[last:], lanes)
    own: list[bool] = []
    jax.eval_shape(lambda state: own.append(isinstance(goes_on(like(start, state)), Laned)), [bare(x) for x in start])
    if own[0]:
        return None
    end = lax.while_loop(
        lambda state: goes_on(like(start, state)),
        lambda state: bare_as(start, once(like(start, state)), lanes),
        [bare(x) for x in start],
    )
    return like(start, end)


def _settled(once: Callable[[list[Any]], list[Any]], state: list[Any], lanes: int) -> list[Any]:
    """The state before a loop, with lanes wherever some turn of the loop brings them in."""
    while True:
        found: list[bool] = []

        def look(bare: list[Any], state: list[Any] = state, found: list[bool] = found) -> None:
            found[:] = [isinstance(x, Laned) for x in once(like(state, bare))]

        jax.eval_shape(look, [bare(x) for x in state])
        if all(isinstance(x, Laned) or not f for x, f in zip(state, found, strict=True)):
            return state
        state = [Laned(spread(x, lanes)) if f else x for x, f in zip(state, found, strict=True)]
