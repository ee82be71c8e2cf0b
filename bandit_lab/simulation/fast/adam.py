"""Adam and AdamW for all lanes at once, as optax has them.

The corrections for the start, 1 / (1 - b^t), are one factor per lane and moment: optax works the power out, and
divides by it, for every arm. Powers are carried as products.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import optax

from bandit_lab._numerics import materialize
from bandit_lab._types import Array
from bandit_lab.grpo import Optimizer

_DECAY = {"adam": 0.0, "adamw": 1e-4}
_KNOWN = {"b1", "b2", "eps", "weight_decay"}


class _State(NamedTuple):
    """Means of gradient and squared gradient, as the parameters; and b1^t, b2^t."""

    first: Array
    second: Array
    left_of_first: Array
    left_of_second: Array


def serves(optimizer: Optimizer) -> bool:
    """Whether it is Adam or AdamW with options that are known here."""
    return optimizer.name in _DECAY and {name for name, _ in optimizer.options} <= _KNOWN


def build(optimizer: Optimizer, learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """What `optimizer.build` gives, up to rounding, for parameters [..., L] and settings [L] or scalars."""
    options: dict[str, Any] = {"b1": momentum, "b2": 0.999, "eps": 1e-8, "weight_decay": _DECAY[optimizer.name]}
    b1, b2, eps, weight_decay = (options | dict(optimizer.options)).values()

    def init(theta: Any) -> _State:
        nothing, one = jnp.zeros_like(theta), jnp.ones((), theta.dtype)
        return _State(nothing, nothing, jnp.broadcast_to(one, jnp.shape(b1)), one)

    def update(gradient: Any, state: Any, theta: Any = None) -> tuple[Any, _State]:
        first = b1 * state.first + (1 - b1) * gradient
        second = b2 * state.second + (1 - b2) * gradient * gradient
        left = [materialize(state.left_of_first * b1), materialize(state.left_of_second * b2)]
        scale, scale_of_square = (materialize(1 / (1 - power)) for power in left)
        step = first * (scale * learning_rate) / (jnp.sqrt(second * scale_of_square) + eps)
        if weight_decay:
            step = step + learning_rate * weight_decay * theta
        return -step, _State(first, second, *left)

    return optax.GradientTransformation(init, update)
