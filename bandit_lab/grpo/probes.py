"""A first look at what a learner is made of, from outside the package: one function for each kind."""

import operator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _probe

_LEAST = 4  # rewards of a group, if the advantage allows so few
_LAWS = 3


def advantage(rule: Any) -> None:
    """Raise ValueError that names the first method of an advantage that is not what its interface says."""
    _probe.hashable(rule)
    least = _probe.attempt("smallest_group", "an integer >= 1", lambda: operator.index(rule.smallest_group))
    size = max(least, _LEAST)
    rewards, two = jnp.arange(size) % 2.0, jnp.array([0.0, 1.0])
    half, laws = jnp.array([0.5, 0.5]), jnp.full((2, _LAWS), 0.5)
    group, many = f"(rewards [{size}])", f"(values [2, 1], ... [2, {_LAWS}])"
    _probe.shaped(group, "[G]", (size,), lambda r: rule(r), rewards)
    _probe.shaped("population(values [2], probabilities [2])", "[U]", (2,), rule.population, two, half)
    _probe.shaped(f"population{many}", "[U, L]", (2, _LAWS), rule.population, two[:, None], laws)
    if hasattr(rule, "scale"):
        some = (jnp.full(_LAWS, 0.25), jnp.zeros(_LAWS, bool))
        each = f"scale(variance [{_LAWS}], silent [{_LAWS}], size)"
        _probe.shaped(each, "[L]", (_LAWS,), lambda v, s: jnp.broadcast_to(rule.scale(v, s, size), (_LAWS,)), *some)
    if hasattr(rule, "of_counts"):
        _probe.shaped(f"of_counts{many}", "[U, L]", (2, _LAWS), rule.of_counts, two[:, None], size * laws)
    if hasattr(rule, "batch"):
        batch = f"batch(rewards [2, {size}])"
        _probe.shaped(batch, "[P, G]", (2, size), rule.batch, jnp.stack([rewards, rewards]))
        law = "population_batch(values [2], laws [1, 2])"
        _probe.shaped(law, "[X, U]", (1, 2), lambda v, p: rule.population_batch(v, p), two, half[None])
    for name, drawn in (("of a mixed group", rewards), ("of a group of equal rewards", jnp.ones(size))):
        _probe.finite(f"{group} {name}", _probe.attempt(group, "numbers", partial(rule, drawn)))


def estimator(rule: Any) -> None:
    """The same of an estimator."""
    _probe.hashable(rule)
    one, four = jnp.asarray(1.0), jnp.full(4, 0.25)
    if hasattr(rule, "of_group"):
        columns = "of_group(log_policy [4], log_old [4], advantage [4], share [4])"
        _probe.shaped(columns, "[M]", (4,), rule.of_group, jnp.log(four), jnp.log(four), four, four)
        return
    if not hasattr(rule, "weight"):
        raise ValueError("weight: expected a method weight(ratio, advantage), or of_group, got neither")
    method = "weight(ratio, advantage)"
    _probe.shaped(method, "", (), lambda r, a: _as_array(rule.weight(r, a), r.dtype), one, one)
    _probe.finite(method, _probe.attempt(method, "a number", lambda: rule.weight(one, one)))
    if hasattr(rule, "token_weights"):
        tokens = "token_weights(ratio [3, 4], advantage [4])"
        _probe.shaped(tokens, "[L, ...]", (3, 4), rule.token_weights, jnp.ones((3, 4)), four)


def _as_array(found: Any, dtype: Any) -> Any:
    """A plain number as an array; what is nothing stays nothing."""
    return None if found is None else jnp.asarray(found, dtype)


def kl_estimator(rule: Any) -> None:
    """The same of a KL estimator."""
    _probe.hashable(rule)
    logs = jnp.log(jnp.array([[0.25, 0.75], [0.5, 0.5]]))
    given = "(log_policy [2, 2], log_reference [2, 2])"
    for name, axes, shape in (("slope", "[X, K]", (2, 2)), ("divergence", "[X]", (2,))):
        function = getattr(rule, name)
        _probe.shaped(f"{name}{given}", axes, shape, function, logs, logs)
        _probe.finite(f"{name}{given}", _probe.attempt(f"{name}{given}", "numbers", partial(function, logs, logs)))


def staleness(rule: Any) -> None:
    """The same of a staleness model."""
    from bandit_lab.grpo.staleness.base import Mixture

    _probe.hashable(rule)
    least = _probe.attempt("smallest_interval", "an integer >= 0", lambda: operator.index(rule.smallest_interval))
    interval = max(least, 2) if rule.whole_interval else float(max(least, 2))
    steps = _probe.attempt(
        f"horizon_for({interval})", "an integer", lambda: operator.index(rule.horizon_for(float(interval)))
    )
    theta, key = jnp.zeros(2), jax.random.key(0)
    state = _probe.attempt(
        f"init(theta [2], {steps})", "arrays", lambda: jax.eval_shape(lambda t: rule.init(t, steps), theta)
    )
    method, expected = "behaviour(state, theta [2], step, interval, key)", "(parameters [D] = [2], next state)"

    def asked(state: Any, theta: Any, age: Any) -> Any:
        return rule.behaviour(state, theta, jnp.int32(0), age, key)

    found = _probe.attempt(method, expected, lambda: jax.eval_shape(asked, state, theta, jnp.asarray(interval)))
    if not (isinstance(found, tuple) and len(found) == 2):
        raise ValueError(f"{method}: expected {expected}, got {type(found).__name__}")
    acting, after = found
    if not isinstance(acting, Mixture) and getattr(acting, "shape", None) != (2,):
        raise ValueError(f"{method}: expected {expected}, got parameters {list(getattr(acting, 'shape', ()))}")
    _same_state(method, after, state)
    period = _probe.attempt(f"period({interval})", "steps", lambda: rule.period(interval)) if rule.whole_interval else 1
    rewound = _probe.attempt(
        "rewind(state, steps)", "a state", lambda: jax.eval_shape(lambda s: rule.rewind(s, period), state)
    )
    _same_state("rewind(state, steps)", rewound, state)


def _same_state(method: str, found: Any, state: Any) -> None:
    """Raise ValueError unless a state has the shapes of that of `init`."""
    shapes = [jax.tree.map(lambda x: tuple(np.shape(x)), one) for one in (state, found)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{method}: expected a state as init gives it, {shapes[0]}, got {shapes[1]}")


def optimizer(built: Any) -> None:
    """The same of an optimiser, built: an optax transformation of parameters [2]."""
    if not (hasattr(built, "init") and hasattr(built, "update")):
        raise ValueError(f"returned: expected an optax.GradientTransformation, got {type(built).__name__}")
    theta = jnp.zeros(2)
    state = _probe.attempt("init(theta [2])", "a state", lambda: built.init(theta))
    _probe.shaped(
        "update(gradient [2], state, theta [2])", "[D]", (2,), lambda g: built.update(g, state, theta)[0], theta
    )
