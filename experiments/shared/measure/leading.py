"""The leading stiffnesses and multipliers without a matrix: for policies with thousands of parameters.

All that is asked of the drift F(theta, theta_old) is its Jacobian-vector product. ARPACK (Lanczos where the drift is a
gradient, Arnoldi elsewhere) finds the eigenvalues that matter. A second route to the same numbers goes through the
network's tangent kernel: where the gradient by log-probabilities vanishes,

    -dF/dtheta = S^T H S,   S = d log pi / d theta [XK, D],

so that its non-zero spectrum is that of H S S^T [XK, XK], H being minus the Jacobian of a plain softmax bandit with one
logit per arm at the same policy (derived here).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.contextual import ContextualBandit
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.measure.block import pack, period_map, scalars
from bandit_lab.measure.directions import policy_directions, scores_at
from bandit_lab.measure.frozen_moment import freeze_second_moment
from bandit_lab.measure.stiffness import spectrum
from bandit_lab.simulation import drift_of

PARTS = ("both", "fresh", "stale")
_SYMMETRIC = 1e-10  # relative difference of u.Av and v.Au below which an operator is taken for symmetric


class Leading(NamedTuple):
    """Eigenvalues that matter most, first the largest.

    values: [C], complex only where they are. vectors: [D, C]. residuals: [C] |A v - value v| for |v| = 1. products:
    how many times A was applied. converged: whether ARPACK reached the tolerance; else the values are its last.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    products: int
    converged: bool


def leading_stiffness(
    learner: Learner,
    dynamics: str,
    kl_weight: float,
    theta: np.ndarray,
    *,
    count: int = 1,
    part: str = "both",
    tolerance: float = 1e-8,
    start: np.ndarray | None = None,
    preconditioner: np.ndarray | None = None,
) -> Leading:
    """The `count` eigenvalues of largest real part of -dF/dtheta at any theta [D], reward units per squared parameter.

    Args:
      part: `fresh` differentiates F by theta alone, `stale` by theta_old alone, `both` the two together.
      tolerance: relative, of ARPACK. start: [D] to begin from, such as the last vector on a path; default: random.
      preconditioner: D [D], positive numbers. The matrix is then D^{1/2} (-dF/dtheta) D^{1/2}, and vectors are those of
        D^{-1/2} theta. With an optimiser's own D (`averaged_path`) values are in units of 1/learning rate.

    Raises:
      ValueError: an unknown part, fewer parameters than eigenvalues, no exact drift, a preconditioner that is not
        positive.
    """
    _checks.choice("part", part, PARTS)
    place, weight = jnp.asarray(theta), jnp.asarray(float(kl_weight))
    positive = preconditioner is None or bool(np.all(preconditioner > 0))
    _checks.require(positive, "preconditioner", "positive numbers", preconditioner)
    root = 1.0 if preconditioner is None else np.sqrt(preconditioner)

    def apply(v: np.ndarray) -> np.ndarray:
        return root * np.asarray(_product(learner, dynamics, part, place, weight, jnp.asarray(root * v, place.dtype)))

    return largest(apply, len(theta), count, "real", tolerance, start)


def stiffness_along(
    learner: Learner,
    dynamics: str,
    kl_weight: float,
    path: np.ndarray,
    tolerance: float = 1e-5,
    preconditioners: np.ndarray | None = None,
) -> np.ndarray:
    """The largest real part [T] of a stiffness at every place of a path [T, D], each begun at the last one's vector.

    NaN where a place is not finite. tolerance, preconditioners [T, D]: as of `leading_stiffness`. Raises what that
    raises.
    """
    stiffness, last = np.full(len(path), np.nan), None
    for place, theta in enumerate(path):
        if np.all(np.isfinite(theta)):
            divided = None if preconditioners is None else preconditioners[place]
            about: dict[str, Any] = {"tolerance": tolerance, "start": last, "preconditioner": divided}
            one = leading_stiffness(learner, dynamics, kl_weight, theta, **about)
            stiffness[place], last = one.values[0].real, one.vectors[:, 0].real
    return stiffness


@partial(jax.jit, static_argnames=("dynamics", "part"))
def _product(learner: Learner, dynamics: str, part: str, theta: Array, kl_weight: Array, v: Array) -> Array:
    drift, still = drift_of(learner, dynamics), jnp.zeros_like(v)
    along = (v if part != "stale" else still, v if part != "fresh" else still)
    return -jax.jvp(lambda new, old: drift(new, old, kl_weight), (theta, theta), along)[1]


def tangent_kernel_stiffness(learner: Learner, dynamics: str, kl_weight: float, theta: np.ndarray) -> np.ndarray:
    """All non-zero stiffnesses [R] by the tangent kernel, largest first, where the gradient by log pi vanishes.

    Elsewhere the network's own second derivative adds a term that this route leaves out.
    """
    scores = np.asarray(scores_at(learner.bandit, jnp.asarray(theta)))
    log_policy = np.asarray(learner.bandit.log_policy(jnp.asarray(theta)))
    cells = log_policy.size
    rows = scores.reshape(cells, -1)
    arms = np.eye(cells).reshape(*log_policy.shape, cells)
    bandit = learner.bandit
    logits = ContextualBandit(bandit.law, jnp.zeros(cells), bandit.reference_log_policy, jnp.asarray(arms))
    place = jnp.asarray((log_policy - np.asarray(bandit.reference_log_policy)).reshape(-1))
    plain = replace(learner, bandit=logits)
    hessian = np.asarray(_jacobian(plain, dynamics, place, jnp.asarray(float(kl_weight))))
    values = spectrum(hessian @ (rows @ rows.T))
    return values[np.abs(values) > 1e-12 * np.max(np.abs(values))]


@partial(jax.jit, static_argnames="dynamics")
def _jacobian(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> Array:
    drift = drift_of(learner, dynamics)
    return -jax.jacfwd(lambda t: drift(t, t, kl_weight))(theta)


def leading_multipliers(
    learner: Learner, dynamics: str, hyper: Hyper, theta: np.ndarray, *, count: int = 2, tolerance: float = 1e-8
) -> Leading:
    """The `count` multipliers of largest modulus of one period of the mean update, linearised at rest at theta [D].

    A period is a refresh block, or one step for a lag (`measure.block`). Directions that do not change the policy are
    projected out: theirs is 1 at every learning rate. At a fixed point these are the Floquet multipliers.

    Raises:
      ValueError: settings out of range, a staleness model without a period.
    """
    hyper = scalars(learner, hyper)
    size = len(theta)
    frozen, fixed = freeze_second_moment(learner.optimizer, float(hyper.learning_rate), float(hyper.momentum), size)
    horizon = learner.staleness.horizon_for(float(hyper.refresh_interval))
    learner = replace(learner, optimizer=frozen, horizon=horizon)
    place = jnp.asarray(theta)
    x, unravel = pack(init(learner, hyper, place))
    basis = policy_directions(learner, theta)

    def inside(v: np.ndarray) -> np.ndarray:
        parts = jax.tree.map(lambda p: basis @ (basis.T @ p) if p.ndim == 1 else (p @ basis) @ basis.T, unravel(v))
        return np.asarray(ravel_pytree(parts)[0])

    def apply(v: np.ndarray) -> np.ndarray:
        moved = _push(learner, dynamics, hyper, x, fixed, jnp.asarray(inside(v)))
        return inside(np.asarray(moved))

    return largest(apply, len(x), count, "modulus", tolerance, None)


@partial(jax.jit, static_argnames="dynamics")
def _push(learner: Learner, dynamics: str, hyper: Hyper, x: Array, fixed: tuple, v: Array) -> Array:
    return jax.jvp(lambda y: period_map(learner, dynamics, hyper, y, (), fixed), (x,), (v,))[1]


def largest(
    apply: Callable[[np.ndarray], np.ndarray],
    size: int,
    count: int,
    by: str,
    tolerance: float,
    start: np.ndarray | None,
) -> Leading:
    """Eigenvalues of a linear map [D] -> [D] that are largest `by` real part or modulus. Raises ValueError."""
    _checks.require(0 < count < size - 1, "count", f"1 to {size - 2} eigenvalues of {size} parameters", count)
    products = 0

    def counted(v: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        return apply(np.asarray(v, float).reshape(-1))

    generator = np.random.default_rng(0)
    u, v = generator.standard_normal((2, size))
    image = counted(v)
    if not np.any(image):  # the part is absent: ARPACK has no vector to begin from
        nothing = np.zeros(count)
        return Leading(nothing, np.eye(size)[:, :count], nothing, products, True)
    there, back = u @ image, v @ counted(u)
    symmetric = abs(there - back) <= _SYMMETRIC * (abs(there) + abs(back))
    operator = LinearOperator((size, size), matvec=counted, dtype=float)
    first = generator.standard_normal(size) if start is None else start
    which = {"real": "LA" if symmetric else "LR", "modulus": "LM"}[by]
    converged = True
    try:
        values, vectors = (eigsh if symmetric else eigs)(operator, count, which=which, v0=first, tol=tolerance)
    except ArpackNoConvergence as stopped:
        values, vectors, converged = stopped.eigenvalues, stopped.eigenvectors, False
    order = np.argsort(-(values.real if by == "real" else np.abs(values)))
    values, vectors = values[order], vectors[:, order]
    images = np.stack([_image(counted, v) for v in vectors.T], axis=1) if len(values) else vectors
    residuals = np.linalg.norm(images - vectors * values, axis=0)
    if np.all(np.abs(values.imag) <= 1e-9 * (1e-300 + np.abs(values))):
        values = values.real
    return Leading(values, vectors, residuals, products, converged)


def _image(apply: Callable[[np.ndarray], np.ndarray], v: np.ndarray) -> np.ndarray:
    return apply(v.real) + 1j * apply(v.imag) if np.iscomplexobj(v) else apply(v)
