"""On-policy momentum descent on a quadratic, released from rest: by steps, and by its poles (`theory.oscillator`)."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from bandit_lab import _checks
from bandit_lab.theory import poles
from bandit_lab.theory.conventions import CONVENTIONS, Convention, gain


def discrete_response(
    steps: int, kappa: ArrayLike, momentum: ArrayLike, convention: Convention = "heavy_ball"
) -> Array:
    """x[t]/x[0] for t = 0..steps, shape [steps + 1], released from rest; differentiable, exact in every regime.

    `kappa` and `momentum` are scalars, traced or not; `steps` is static. Derived in `theory.oscillator`.
    Raises ValueError for an unknown convention.
    """
    _checks.choice("convention", convention, CONVENTIONS)
    mu = jnp.asarray(momentum, jnp.result_type(float, jnp.asarray(momentum).dtype))
    scaled = jnp.asarray(kappa, mu.dtype) * gain(mu, convention)
    look = mu if convention == "nesterov" else jnp.zeros_like(mu)

    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        position, velocity = state
        push = -scaled * position
        velocity = mu * velocity + push
        following = position + (push + look * velocity if convention == "nesterov" else velocity)
        return (following, velocity), following

    start = jnp.ones_like(mu)
    _, path = jax.lax.scan(step, (start, jnp.zeros_like(mu)), None, length=steps)
    return jnp.concatenate([start[None], path])


def pole_response(time: int, kappa: float, momentum: float, convention: Convention = "heavy_ball") -> float:
    """x[time]/x[0] from the poles, the closed form of `discrete_response` (a double pole by its limit)."""
    if time == 0:
        return 1.0
    first, second = poles(kappa, momentum, convention)
    product = (first * second).real
    slope = 1 - kappa * gain(momentum, convention) * (1 + momentum if convention == "nesterov" else 1.0)
    return (slope * _divided(first, second, time) - product * _divided(first, second, time - 1)).real


def _divided(first: complex, second: complex, power: int) -> complex:
    """(z1^n - z2^n)/(z1 - z2) without cancellation, n >= 0: the sum z1^(n-1) + z1^(n-2) z2 + ... near a double pole."""
    if abs(first - second) > 1e-3 * abs(first):
        return (first**power - second**power) / (first - second)
    return sum((first ** (power - 1 - j) * second**j for j in range(power)), 0j)
