"""The heavy ball in three conventions."""

import optax

from bandit_lab._types import Array
from bandit_lab.grpo.optimizer.base import register_optimizer


@register_optimizer("sgd")
def sgd(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """Heavy ball, v <- mu v + g, theta <- theta + eta v (the form of PyTorch and optax)."""
    return optax.chain(optax.trace(decay=momentum), optax.scale_by_learning_rate(learning_rate))


@register_optimizer("sgd_ema")
def sgd_ema(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """Heavy ball on an exponential average, v <- mu v + (1 - mu) g: every stiffness is multiplied by 1 - mu."""
    return optax.chain(optax.ema(decay=momentum, debias=False), optax.scale_by_learning_rate(learning_rate))


@register_optimizer("nesterov")
def nesterov(learning_rate: Array, momentum: Array) -> optax.GradientTransformation:
    """v <- mu v + g, theta <- theta + eta (mu v + g)."""
    return optax.chain(optax.trace(decay=momentum, nesterov=True), optax.scale_by_learning_rate(learning_rate))
