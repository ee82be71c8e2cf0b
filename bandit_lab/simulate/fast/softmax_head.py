"""Policies that end in a softmax over the arms: the function from parameters to logits that comes before it."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from bandit_lab._types import Array


def before_softmax(log_policy: Callable[[Array], Array], theta: Array) -> tuple[Callable[[Array], Array], bool]:
    """(f, True) if log_policy is `jax.nn.log_softmax` of f(theta) over the last axis; else (log_policy, False).

    The last operation has to be that call itself, so that a policy is never taken for what it is not.
    """
    closed = jax.make_jaxpr(log_policy)(theta)
    last = closed.jaxpr.eqns[-1] if closed.jaxpr.eqns else None
    if last is None or list(closed.jaxpr.outvars) != list(last.outvars) or len(last.invars) != 1:
        return log_policy, False
    model = jax.make_jaxpr(lambda x: jax.nn.log_softmax(x, axis=-1))(last.invars[0].aval).jaxpr.eqns
    same = len(model) == 1 and last.primitive is model[0].primitive and _written(last) == _written(model[0])
    if not same or not hasattr(closed, "replace"):
        return log_policy, False
    logits = closed.replace(jaxpr=closed.jaxpr.replace(eqns=closed.jaxpr.eqns[:-1], outvars=last.invars))
    return lambda theta: jaxpr_as_fun(logits)(theta)[0], True


def _written(equation: Any) -> str:
    return str(equation.params.get("jaxpr"))
