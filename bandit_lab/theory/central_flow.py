"""The path about which a run at the edge of stability swings: the gradient flow, held at the edge's stiffness.

Derived here, after arXiv 2209.15594 and 2410.24206 for supervised learning. Let K be the stiffness and u its direction.
A run that swings by x along u sees the mean drift F - (s^2/2) grad K, s^2 the mean square of x, since
F(theta + x u) = F - x K u - (x^2/2) grad K + ... A stale gradient is F at another swing, with the same mean square.
Below the edge swings die out: s = 0. At the edge they grow until K stays there:

    d theta/dt = F - c grad K,    c = max(0, (grad K . F)/|grad K|^2) at K = edge, else 0.

So the path depends on the staleness model through the edge alone. It leaves the edge where F itself no longer sharpens.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bandit_lab import _checks
from bandit_lab.theory.gradient_flow import ADVANTAGES, Climb, potential

_TURNS = 4  # of the power iteration per step; the direction is that of the last step before them
_SOFT = 4  # steps in which the rest of the way to the edge would be gone: c begins where it is shorter


@partial(jax.jit, static_argnames=("advantage", "every", "count"))
def _held(climb: Climb, advantage: str, edge: Array, size: Array, every: int, count: int) -> Array:
    slope = jax.grad(lambda theta: potential(climb, advantage, theta))

    def pulled(theta: Array, u: Array) -> Array:
        return -jax.jvp(slope, (theta,), (u,))[1]

    def step(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, u = carry

        def turn(_: int, u: Array) -> Array:
            v = pulled(theta, u) + edge * u  # shifted: the largest value is then the largest modulus
            return v / jnp.linalg.norm(v)

        u = jax.lax.fori_loop(0, _TURNS, turn, u)
        stiffness, steepest = jax.value_and_grad(lambda x: u @ pulled(x, u))(theta)
        drift = slope(theta)
        rise = steepest @ drift + (stiffness - edge) / (_SOFT * size)
        push = jnp.maximum(rise, 0) / (steepest @ steepest)
        return theta + size * (drift - push * steepest), u

    def saved(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        return jax.lax.fori_loop(0, every, step, carry), carry[0]

    hessian = jax.hessian(lambda theta: potential(climb, advantage, theta))(climb.start)
    u = jnp.linalg.eigh(hessian)[1][:, 0]
    return jax.lax.scan(saved, (climb.start, u), None, count)[1]


def central_flow(
    climb: Climb, advantage: str, edge: float, times: np.ndarray, size: float, every: int = 5
) -> np.ndarray:
    """Parameters [T, D] at times [T] of the flow that is held at a stiffness `edge`, in steps of unit learning rate.

    Euler's method with steps of `size`; linear between every `every`-th step. Raises ValueError for an unknown
    advantage, an edge that is not positive.
    """
    _checks.choice("advantage", advantage, ADVANTAGES)
    _checks.positive("edge", edge)
    gap = size * every
    count = int(np.max(times) / gap) + 2
    path = np.asarray(_held(climb, advantage, jnp.asarray(edge), jnp.asarray(size), every, count))
    low = (times / gap).astype(int)
    share = (times / gap - low)[:, None]
    return (1 - share) * path[low] + share * path[low + 1]
