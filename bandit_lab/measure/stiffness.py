"""Stiffness at a fixed point by three routes: Hessian of a potential, Jacobian of the drift, and behaviour alone."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.grpo import Hyper, Learner, Optimizer, Refresh, init, update
from bandit_lab.measure.fixed_point import FixedPoint
from bandit_lab.measure.potential import potential
from bandit_lab.simulate import DYNAMICS, drift_of

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

    The runs use N = 1, mu = 0 and plain gradient steps, whatever the learner's own staleness and optimiser, and the
    exact mean at the learner's group size if the dynamics are sampled.
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
        "dropped with a sampled KL term or several contexts, or actions of a group are weighed together"
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
