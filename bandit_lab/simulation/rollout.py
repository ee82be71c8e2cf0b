"""One run of the update: every loop over `grpo.update` outside of the fast path goes through here.

A run is a number of strides of `every` updates. What is asked for is kept once per stride, so that memory grows with
the number of strides and never with that of updates. A number for the whole run is folded, update by update, and takes
no memory that grows at all.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo import GradientFn, Hyper, Info, Learner, State, update


class Stride(NamedTuple):
    """What can be seen of a stride. before, after: states around it. info: of its last update."""

    before: State
    after: State
    info: Info


class Rollout(NamedTuple):
    """state: after the last update. seen: what `observe` returned, every leaf [times, ...], or None. total: folded."""

    state: State
    seen: Any
    total: Any


Observe = Callable[[Stride], Any]
"""A stride -> a pytree of arrays, kept once per stride."""

Fold = Callable[[Any, Stride], Any]
"""(the total so far, a stride of one update) -> the new total, a pytree of the same shapes and types."""


def rollout(
    learner: Learner,
    gradient: GradientFn,
    hyper: Hyper,
    key: Array,
    state: State,
    times: int | Array,
    every: int | Array = 1,
    *,
    observe: Observe | None = None,
    fold: Fold | None = None,
    total: Any = None,
) -> Rollout:
    """Run `times` strides of `every` updates, for one seed and one setting; it is vectorised outside.

    Args:
      gradient: one of `simulation.DYNAMICS` on the learner. hyper: scalars. key: of the whole run, see `grpo.update`.
      state: from which the run starts, often `grpo.init(learner, hyper, theta)`.
      times: strides; a plain integer where something is observed, else it may be traced.
      every: updates of a stride, which may be traced.
      observe: called once per stride. fold: called once per update, begins with `total`.

    Raises:
      TypeError: something is observed a traced number of times.
    """
    one_by_one = isinstance(every, int) and every == 1

    def one(state: State, total: Any) -> tuple[State, Any, Info]:
        new, info = update(learner, gradient, hyper, key, state)
        return new, total if fold is None else fold(total, Stride(state, new, info)), info

    def stride(carry: tuple[State, Any], _: None) -> tuple[tuple[State, Any], Any]:
        before, total = carry
        if one_by_one:
            after, total, info = one(before, total)
        else:
            shapes = jax.eval_shape(one, before, total)[2]
            nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            after, total, info = jax.lax.fori_loop(0, every, lambda _, c: one(c[0], c[1]), (before, total, nothing))
        return (after, total), None if observe is None else observe(Stride(before, after, info))

    if observe is None:
        steps = times if one_by_one else times * every
        end = jax.lax.fori_loop(0, steps, lambda _, c: one(c[0], c[1])[:2], (state, total))
        return Rollout(end[0], None, end[1])
    end, seen = jax.lax.scan(stride, (state, total), length=operator.index(times))
    return Rollout(end[0], seen, end[1])
