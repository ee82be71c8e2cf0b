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
_CLOSE = 1e-4
"""Difference of advantages that float32 may have."""


def advantage(rule: Any) -> None:
    """Raise ValueError that names the first method of an advantage that is not what its interface says."""
    _probe.hashable(rule)
    _no_older_methods(rule)
    least = _probe.attempt("smallest_group", "an integer >= 1", lambda: operator.index(rule.smallest_group))
    size = max(least, _LEAST)
    rewards, each = jnp.arange(size) % 2.0, jnp.full(size, 1 / size)
    values = jnp.array([0.0, 1.0, 2.0])[:, None]
    lost = jnp.arange(size // 2, size // 2 + _LAWS) % size
    shares = jnp.stack([size - lost, lost, 0 * lost]) / size
    method, drawn = (
        "advantages(values [3, 1], shares [3, 3], {})",
        f"advantages(values [{size}], shares [{size}], {size})",
    )
    if hasattr(rule, "scale"):
        number, some = f"scale(variance [{_LAWS}], silent [{_LAWS}], {size})", jnp.full(_LAWS, 0.25)
        _probe.shaped(number, "[...]", (_LAWS,), lambda v: rule.scale(v, v < 0, size) * jnp.ones_like(v), some)
    if hasattr(rule, "batch_advantages"):
        batch = f"batch_advantages(values [3, 1], shares [3, {_LAWS}], {size})"
        _probe.shaped(batch, "[U, P]", shares.shape, lambda p: rule.batch_advantages(values, p, size), shares)
    _probe.shaped(drawn, "[U]", (size,), lambda r: rule.advantages(r, each, size), rewards)
    for many in (size, None):
        found = partial(_as_shares, rule, size=many)
        _probe.shaped(method.format(many), "[U, L]", shares.shape, found, values, shares)
    for name, group in (("a mixed group", rewards), ("a group of equal rewards", jnp.ones(size))):
        answer = _probe.attempt(drawn, "numbers", partial(rule.advantages, group, each, size))
        _probe.finite(f"advantages of {name}", answer)
    _one_rule(rule, size, values, shares)


def _as_shares(rule: Any, values: Any, shares: Any, size: int | None) -> Any:
    """The advantages, spread over groups where they do not look at them."""
    found = rule.advantages(values, shares, size)
    return jnp.broadcast_to(found, shares.shape) if getattr(found, "shape", None) == values.shape else found


def _no_older_methods(rule: Any) -> None:
    """Raise ValueError that says what to write where a rule has the methods of older versions, or not the one."""
    older = [name for name in ("population", "of_counts", "batch", "population_batch") if hasattr(rule, name)]
    older = ["__call__"] * callable(rule) + older
    own = [name for name in dir(type(rule)) if not name.startswith("_")]
    if older or not hasattr(rule, "advantages"):
        got = f"{', '.join(older)} in its place" if older else ", ".join(own)
        raise ValueError(
            "advantages: expected one method advantages(values [U, L], shares [U, L], size or None) -> [U, L] (see "
            f"docs/extending.md), got {got}"
        )


def _one_rule(rule: Any, size: int, values: Any, shares: Any) -> None:
    """Raise ValueError unless a drawn group, counts side by side and `scale` give the same advantages."""
    counted = np.asarray(_as_shares(rule, values, shares, size))
    for lane, counts in enumerate(np.rint(np.asarray(shares) * size).astype(int).T):
        rewards = np.repeat(np.asarray(values[:, 0]), counts)
        drawn = np.asarray(rule.advantages(jnp.asarray(rewards), jnp.full(size, 1 / size), size))
        by_value = np.repeat(counted[:, lane], counts)
        scaled = drawn
        if hasattr(rule, "scale"):
            variance, silent = jnp.asarray(rewards.var()), jnp.asarray(bool(np.ptp(rewards) == 0))
            scaled = (rewards - rewards.mean()) * np.asarray(rule.scale(variance, silent, size))
        for name, found in (("as shares of its values", by_value), ("by scale", scaled)):
            if not np.allclose(found, drawn, rtol=_CLOSE, atol=_CLOSE):
                raise ValueError(
                    f"advantages: expected for rewards {_probe.shortened(rewards)} the same {name} as for each by "
                    f"itself, {_probe.shortened(drawn)}, got {_probe.shortened(found)} (values lie along axis 0)"
                )


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
    return None if found is None else jnp.asarray(found, dtype)


def sampler(rule: Any) -> None:
    """The same of a sampler."""
    _probe.hashable(rule)
    given, logs = "log_law(log_policy [2, 3])", jnp.log(jnp.array([[0.25, 0.5, 0.25], [0.5, 0.3, 0.2]]))
    _probe.shaped(given, "[X, K]", (2, 3), rule.log_law, logs)
    total = np.asarray(jnp.exp(_probe.attempt(given, "numbers", lambda: rule.log_law(logs))).sum(axis=-1))
    if not np.allclose(total, 1, rtol=0, atol=_CLOSE):
        raise ValueError(f"{given}: expected log-probabilities of sum 1, got the sums {_probe.shortened(total)}")


def correction(rule: Any) -> None:
    """The same of a correction."""
    _probe.hashable(rule)
    method, mismatch = "weight(mismatch [3])", jnp.array([0.5, 1.0, 2.0])
    _probe.shaped(method, "[...]", (3,), rule.weight, mismatch)
    found = np.asarray(_probe.attempt(method, "numbers", lambda: rule.weight(mismatch)))
    _probe.finite(method, found)
    if found[1] != 1:
        raise ValueError(f"{method}: expected 1 where sampler and policy agree, got {float(found[1])!r}")


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
    _check_state_shapes(method, after, state)
    period = _probe.attempt(f"period({interval})", "steps", lambda: _period(rule, interval))
    rewound = _probe.attempt(
        "rewind(state, steps)", "a state", lambda: jax.eval_shape(lambda s: rule.rewind(s, period), state)
    )
    _check_state_shapes("rewind(state, steps)", rewound, state)


def _period(rule: Any, interval: float) -> int:
    """Steps after which a rule repeats itself; 1 where it says that it never does."""
    try:
        return operator.index(rule.period(interval))
    except ValueError:
        return 1


def _check_state_shapes(method: str, found: Any, state: Any) -> None:
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
