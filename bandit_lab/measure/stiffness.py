"""Stiffness at a fixed point by three routes: Hessian of a potential, Jacobian of the drift, and behaviour alone.

The potential whose gradient is the on-policy drift, where there is one.

With rewards in two values the reward part of the on-policy drift of a context is h(q) grad q. Here q is the probability
of the higher value, and h(q) the gap between its mean advantage and that of the lower one. Its potential is the
integral of h; for an infinite group and A = (r - J)/sigma it is 2 arcsin(sqrt(J)). Advantages that are linear in the
rewards have the potential (factor times) J for any law. Otherwise (a group std over three or more reward values) the
drift is not a gradient. Dropping silent groups divides h by the chance of a group that is not silent, and couples
contexts, and the actions that the sampled KL sees, through it: then there is a potential for one context and exact KL.
An advantage that sees the batch couples contexts too. A KL estimator brings its divergence, the entropy bonus is one.
Of the law of another sampler no potential is looked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import (
    Hyper,
    Learner,
    Optimizer,
    Refresh,
    advantages,
    drawn_advantages,
    init,
    resampled,
    sees_batch,
    update,
    weighs_groups,
    weighs_tokens,
)
from bandit_lab.measure.fixed_point import FixedPoint
from bandit_lab.simulation import DYNAMICS, drift_of

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def advantage_gap(learner: Learner, dynamics: str) -> Callable[[Array], Array]:
    """h(q): mean advantage of the higher of two reward values minus that of the lower, if the higher has chance q."""
    values, size = learner.bandit.law.values, learner.group_size
    if dynamics == "mean_field":

        def gap(chance: Array) -> Array:
            low, high = advantages(learner.advantage, values, jnp.stack([1 - chance, chance]), None)
            return high - low

        return gap
    wins = np.arange(size)  # among the other G - 1 actions
    ways = np.array([float(comb(size - 1, int(m))) for m in wins])

    def advantage_of(value: int) -> Array:
        """Advantages [M] of an action with reward values[value], when 0..G-1 of the others succeeded."""
        won = wins + value
        shares = jnp.asarray(np.stack([size - won, won]) / size, values.dtype)
        return advantages(learner.advantage, values[:, None], shares, size)[value]

    high, low = advantage_of(1), advantage_of(0)
    if not learner.advantage.drops_silent:
        return lambda chance: jnp.sum(ways * chance**wins * (1 - chance) ** (size - 1 - wins) * (high - low))
    high, low = jnp.where(wins == size - 1, 0, high), jnp.where(wins == 0, 0, low)

    def gap_of_non_silent(chance: Array) -> Array:
        weight = ways * chance**wins * (1 - chance) ** (size - 1 - wins)
        return jnp.sum(weight * (high - low)) / (1 - chance**size - (1 - chance) ** size)

    return gap_of_non_silent


def potential(learner: Learner, dynamics: str, theta: np.ndarray | Array) -> Callable[[Array, Array], Array] | None:
    """The potential near theta [D] as a function of (parameters [D], kl_weight), or None where there is none.

    Its constant is chosen so that the reward part vanishes at theta.
    """
    bandit = learner.bandit
    probabilities = bandit.law.probabilities
    binary = probabilities.shape[-1] == 2
    weight, kl, contexts = _weight_on_policy(learner), learner.kl_estimator, probabilities.shape[0]
    if not (binary or learner.advantage.linear) or weight is None:
        return None
    drops = learner.advantage.drops_silent and dynamics != "mean_field"
    if drops and (contexts > 1 or kl.sampled or not binary):
        return None
    if (sees_batch(learner.advantage) and contexts > 1) or resampled(learner):
        return None

    def win_chance(x: Array) -> Array:
        return jnp.sum(jnp.exp(bandit.log_policy(x)) * probabilities[..., -1], axis=-1)

    if learner.advantage.linear:
        unit = jnp.zeros(learner.group_size).at[0].set(1.0)
        factor = drawn_advantages(learner.advantage, unit[None])[0, 0] if dynamics != "mean_field" else 1.0

        def reward_part(x: Array) -> Array:
            return factor * jnp.mean(jnp.sum(jnp.exp(bandit.log_policy(x)) * bandit.law.means, axis=-1))

    else:
        gap, start = advantage_gap(learner, dynamics), win_chance(jnp.asarray(theta))

        def integral(chance: Array, origin: Array) -> Array:
            points = origin + (chance - origin) * 0.5 * (1 + _NODES)
            return (chance - origin) * 0.5 * jnp.sum(_WEIGHTS * jax.vmap(gap)(points))

        def reward_part(x: Array) -> Array:
            return jnp.mean(jax.vmap(integral)(win_chance(x), start))

    def value(x: Array, kl_weight: Array) -> Array:
        log_policy = bandit.log_policy(x)
        divergence = jnp.mean(kl.divergence(log_policy, bandit.reference_log_policy))
        entropy = -jnp.mean(jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1))
        return weight * reward_part(x) - kl_weight * divergence + learner.entropy_weight * entropy

    return value


def _weight_on_policy(learner: Learner) -> float | None:
    """What the estimator multiplies every action's gradient by where the policies agree; None if not one number."""
    if weighs_groups(learner):
        return None
    estimator = learner.estimator
    with jax.ensure_compile_time_eval():
        signs = jnp.array([1.0, -1.0])
        if weighs_tokens(learner):
            bandit: Any = learner.bandit
            tokens = jax.eval_shape(bandit.log_token_policy, bandit.initial_parameters).shape[0]
            weights = estimator.token_weights(jnp.ones((tokens, 2)), signs)
        else:
            weights = estimator.weight(jnp.ones(2), signs)
        first = float(weights.ravel()[0])
        return first if bool(jnp.all(weights == first)) else None


_DISPLACEMENT = 1e-4  # logits; the central difference is then off by about its square


@dataclass(frozen=True)
class StiffnessReport:
    """Stiffnesses in reward units per squared logit, largest first; R = directions that change the policy.

    fresh, stale: [R, R] = -d drift / d theta and -d drift / d theta_old in the basis of the fixed point.
    jacobian: [R] eigenvalues of fresh + stale (complex only if the drift is not a gradient). fresh_spectrum,
    stale_spectrum: [R]. hessian: [R] eigenvalues of minus the potential's Hessian, or None with hessian_reason.
    relaxation: [R] eigenvalues of relaxation_matrix [R, R], measured from increments of a displaced run.
    """

    fresh: np.ndarray
    stale: np.ndarray
    jacobian: np.ndarray
    fresh_spectrum: np.ndarray
    stale_spectrum: np.ndarray
    hessian: np.ndarray | None
    hessian_reason: str | None
    relaxation: np.ndarray
    relaxation_matrix: np.ndarray

    @property
    def largest(self) -> float:
        """The largest stiffness, K of arXiv 2606.30789."""
        return float(self.jacobian[0].real)


def spectrum(matrix: np.ndarray) -> np.ndarray:
    """Eigenvalues, largest real part first, real if they all are to rounding."""
    values = np.linalg.eigvals(matrix)
    values = values[np.argsort(-values.real)]
    return values.real if np.all(np.abs(values.imag) <= 1e-9 * (1e-300 + np.abs(values))) else values


@partial(jax.jit, static_argnames="dynamics")
def _split(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> tuple[Array, Array]:
    drift = drift_of(learner, dynamics)
    fresh, stale = jax.jacfwd(drift, argnums=(0, 1))(theta, theta, kl_weight)
    return -fresh, -stale


def fresh_and_stale(learner: Learner, dynamics: str, kl_weight: float, point: FixedPoint) -> tuple[np.ndarray, ...]:
    """(H_fresh, H_stale), each [R, R], by forward autodiff of the exact drift at an existing fixed point."""
    parts = _split(learner, dynamics, jnp.asarray(point.theta), jnp.asarray(float(kl_weight)))
    return tuple(point.basis.T @ np.asarray(part) @ point.basis for part in parts)


@partial(jax.jit, static_argnames="dynamics")
def _hessian(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> Array:
    """Hessian [D, D] of the potential, which must exist."""
    value = potential(learner, dynamics, theta)
    assert value is not None
    return jax.hessian(value)(theta, kl_weight)


@partial(jax.jit, static_argnames="dynamics")
def _increment(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> Array:
    """Change [D] of the parameters in the first step of a run from theta, per unit of learning rate."""
    rate = jnp.asarray(1e-3, theta.dtype)
    hyper = Hyper(rate, jnp.zeros_like(rate), jnp.int32(1), kl_weight)
    gradient = DYNAMICS[dynamics](learner)
    state, _ = update(learner, gradient, hyper, jax.random.key(0), init(learner, hyper, theta))
    return (state.theta - theta) / rate


def relaxation_matrix(learner: Learner, dynamics: str, kl_weight: float, point: FixedPoint) -> np.ndarray:
    """Response [R, R] seen from outside: displace each parameter in turn both ways, run one step, read the increment.

    The runs use N = 1, mu = 0 and plain gradient steps, whatever the learner's own staleness and optimiser. If the
    dynamics are sampled, they use the exact mean at the learner's group size.
    """
    dynamics = "finite_group" if dynamics == "sampled" else dynamics
    outside = _on_policy(learner)
    theta, weight = jnp.asarray(point.theta), jnp.asarray(float(kl_weight))
    columns = []
    for direction in np.eye(len(theta)) * _DISPLACEMENT:
        ahead = _increment(outside, dynamics, theta + direction, weight)
        behind = _increment(outside, dynamics, theta - direction, weight)
        columns.append(np.asarray(ahead - behind) / (2 * _DISPLACEMENT))
    return -point.basis.T @ np.stack(columns, axis=1) @ point.basis


def _on_policy(learner: Learner) -> Learner:
    """The same learner with a fresh snapshot at every step and plain gradient steps."""
    return replace(learner, staleness=Refresh(), optimizer=Optimizer("sgd"), batch_reuse=False)


def measure_stiffness(learner: Learner, dynamics: str, kl_weight: float, point: FixedPoint) -> StiffnessReport:
    """All three routes at an existing fixed point of the drift of `dynamics`. Needs float64.

    Raises:
      ValueError: the fixed point does not exist.
    """
    if point.theta is None:
        raise ValueError(f"fixed point: expected one that exists, got {point.reason}")
    fresh, stale = fresh_and_stale(learner, dynamics, kl_weight, point)
    hessian: np.ndarray | None = None
    reason: str | None = (
        "the drift is not a gradient: the group std depends on more than two reward values, or silent groups are "
        "dropped with a sampled KL term or several contexts, or actions of a group are weighed together, or another "
        "law draws"
    )
    if potential(learner, dynamics, point.theta) is not None:
        matrix = _hessian(learner, dynamics, jnp.asarray(point.theta), jnp.asarray(float(kl_weight)))
        hessian, reason = spectrum(-point.basis.T @ np.asarray(matrix) @ point.basis), None
    response = relaxation_matrix(learner, dynamics, kl_weight, point)
    return StiffnessReport(
        fresh,
        stale,
        spectrum(fresh + stale),
        spectrum(fresh),
        spectrum(stale),
        hessian,
        reason,
        spectrum(response),
        response,
    )
