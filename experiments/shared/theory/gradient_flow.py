"""The gradient flow of the mean update, and its sharpness along the way, for any policy that can be differentiated.

Derived here. With infinite groups, Bernoulli rewards of success probabilities q and reverse KL the on-policy drift is
the gradient of

    mean over prompts of g(J) - beta KL(pi || pi_ref),     J = sum_k pi_k q_k,

g(J) = 2 arcsin(sqrt(J)) for advantages divided by the std (dg/dJ = 1/sqrt(J(1-J))), g(J) = J for those that are not.
So its stiffness matrix is symmetric: minus the Hessian. Off-policy the drift is the gradient by the new parameters of

    ratio        sum_k A_k(old) pi_k(new)            less the KL term at the new parameters,
    uncorrected  sum_k A_k(old) pi_k(old) log pi_k(new)   less the same,
    frozen       either, with the old parameters in place of the new ones,

A_k(old) = (q_k - J(old)), over the std of the old policy where it is divided.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.sparse.linalg import LinearOperator, eigsh

from bandit_lab import _checks

ADVANTAGES, ESTIMATORS = ("grpo", "dr_grpo"), ("frozen", "uncorrected", "ratio")


class Climb(NamedTuple):
    """What climbs what. log_policy: parameters [D] -> [X, K], a `jax.tree_util.Partial` (its arguments are traced).

    start: [D]. success: [X, K] probabilities of a reward of 1, else 0. log_reference: [X, K]. kl_weight: per nat.
    """

    log_policy: Callable[[Array], Array]
    start: Array
    success: Array
    log_reference: Array
    kl_weight: Array


def climb_of(bandit: Any, kl_weight: float) -> Climb:
    """The climb of a differentiable policy (a pytree) with Bernoulli rewards, from its start, at a KL weight per nat.

    Of the bandit are read: `log_policy` of parameters [D] -> [X, K], `initial_parameters` [D], `reference_log_policy`
    [X, K], and `law.probabilities` [X, K, 2] of the rewards 0 and 1.
    """
    policy, success = jax.tree_util.Partial(type(bandit).log_policy, bandit), bandit.law.probabilities[..., 1]
    return Climb(policy, bandit.initial_parameters, success, bandit.reference_log_policy, jnp.asarray(kl_weight))


def potential(climb: Climb, advantage: str, theta: Array) -> Array:
    """What the on-policy drift climbs, at parameters [D]."""
    log_policy = climb.log_policy(theta)
    policy = jnp.exp(log_policy)
    success = jnp.sum(policy * climb.success, axis=-1)
    gain = 2 * jnp.arcsin(jnp.sqrt(success)) if advantage == "grpo" else success
    return jnp.mean(gain - climb.kl_weight * jnp.sum(policy * (log_policy - climb.log_reference), axis=-1))


@partial(jax.jit, static_argnames=("advantage", "room"))
def _followed(climb: Climb, advantage: str, size: Array, every: Array, count: Array, room: int) -> Array:
    """[room, D], of which `count` are places of the flow; of any number and spacing, so that few are compiled."""
    slope = jax.grad(lambda theta: potential(climb, advantage, theta))

    def step(_: int, theta: Array) -> Array:
        a = slope(theta)
        b = slope(theta + size / 2 * a)
        c = slope(theta + size / 2 * b)
        return theta + size / 6 * (a + 2 * b + 2 * c + slope(theta + size * c))

    def saved(place: int, seen: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, path = seen
        return jax.lax.fori_loop(0, every, step, theta), path.at[place].set(theta)

    return jax.lax.fori_loop(0, count, saved, (climb.start, jnp.zeros((room, len(climb.start)))))[1]


def follow(climb: Climb, advantage: str, times: np.ndarray, size: float, every: int = 5) -> np.ndarray:
    """Parameters [T, D] at times [T] of the flow, in steps of unit learning rate.

    Runge and Kutta's method of order 4 with steps of `size`, stable for stiffnesses below 2.78/size; linear between
    every `every`-th step. Raises ValueError for an unknown advantage.
    """
    _checks.choice("advantage", advantage, ADVANTAGES)
    gap = size * every
    count = int(np.max(times) / gap) + 2
    room = 1 << (count - 1).bit_length()
    path = np.asarray(_followed(climb, advantage, jnp.asarray(size), jnp.asarray(every), jnp.asarray(count), room))
    low = (times / gap).astype(int)
    share = (times / gap - low)[:, None]
    return (1 - share) * path[low] + share * path[low + 1]


@partial(jax.jit, static_argnames="advantage")
def _pulled(climb: Climb, advantage: str, theta: Array, v: Array) -> Array:
    """Minus the Hessian times v [D]."""
    return -jax.jvp(jax.grad(lambda x: potential(climb, advantage, x)), (theta,), (v,))[1]


def sharpness(climb: Climb, advantage: str, places: np.ndarray) -> np.ndarray:
    """Largest stiffness [T] at parameters [T, D], by Lanczos' method, each begun at the last one's vector.

    Relative accuracy 1e-8. NaN where a place is not finite.
    """
    largest = np.full(len(places), np.nan)
    last = np.random.default_rng(0).standard_normal(places.shape[1])
    for place in np.flatnonzero(np.isfinite(places).all(axis=1)):
        theta = places[place]
        apply = partial(_pulled, climb, advantage, jnp.asarray(theta))
        operator = LinearOperator((len(theta), len(theta)), lambda v, apply=apply: np.asarray(apply(v)), dtype=float)
        values, vectors = eigsh(operator, 1, which="LA", v0=last, tol=1e-8)
        largest[place], last = values[0], vectors[:, 0]
    return largest


def off_policy_drift(climb: Climb, advantage: str, estimator: str, theta: Array, old: Array) -> Array:
    """The mean update [D] at parameters [D] from groups drawn at other parameters [D]."""
    before = climb.log_policy(old)
    success = jnp.sum(jnp.exp(before) * climb.success, axis=-1, keepdims=True)
    centred = climb.success - success
    if advantage == "grpo":
        centred = centred / jnp.sqrt(success * (1 - success))

    def objective(x: Array) -> Array:
        log_policy = climb.log_policy(x)
        policy = jnp.exp(log_policy)
        seen = policy if estimator == "ratio" else jnp.exp(before) * log_policy
        return jnp.mean(
            jnp.sum(centred * seen - climb.kl_weight * policy * (log_policy - climb.log_reference), axis=-1)
        )

    return jax.grad(objective)(old if estimator == "frozen" else theta)


@partial(jax.jit, static_argnames=("advantage", "estimator", "count"))
def _parts(climb: Climb, advantage: str, estimator: str, count: int, theta: Array) -> tuple[Array, Array]:
    _, vectors = jnp.linalg.eigh(jax.hessian(lambda x: potential(climb, advantage, x))(theta))
    basis = vectors[:, :count]  # ascending eigenvalues of the Hessian: the stiffest first

    def moved(new: Array, old: Array) -> Array:
        return basis.T @ off_policy_drift(climb, advantage, estimator, theta + basis @ new, theta + basis @ old)

    fresh, stale = jax.jacfwd(moved, (0, 1))(jnp.zeros(count), jnp.zeros(count))
    return -fresh, -stale


def stiffness_parts(
    climb: Climb, advantage: str, estimator: str, theta: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """(H_fresh, H_stale) [count, count] in the on-policy drift's stiffest directions, at parameters [D].

    Raises ValueError for an unknown advantage or estimator.
    """
    _checks.choice("advantage", advantage, ADVANTAGES)
    _checks.choice("estimator", estimator, ESTIMATORS)
    fresh, stale = _parts(climb, advantage, estimator, count, jnp.asarray(theta))
    return np.asarray(fresh), np.asarray(stale)
