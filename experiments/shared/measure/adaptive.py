"""Second moments that see the fluctuations they cause: an adaptive optimiser's self-consistent stationary state.

At the fixed point itself the second moment is that of the group noise, v = diag C. But parameters fluctuate around it,
and so does the mean gradient: v = diag(C + H Sigma H^T), where the covariance Sigma of the state depends on v through
the step 1/sqrt(v). With F the map of one period, J and B its Jacobians with respect to the state and to noise added to
the gradients of its steps, and g_j = G_j s + W_j xi the gradient of step j,

    Sigma = J Sigma J^T + B (1 x C) B^T,        E[g_j g_j^T] = G_j Sigma G_j^T + W_j (1 x C) W_j^T,

averaged over the steps j of a period, is what the optimiser averages. Sigma diverges where the radius of J reaches 1,
so that v rises without bound first: the self-consistent state exists at every learning rate and is linearly stable.
Without momentum, on-policy, with y = eta K/sqrt(v) and y_0 = eta K/sqrt(C):  v/C = 2/(2 - y), y sqrt(2/(2 - y)) = y_0,
and the multiplier 1 - y comes down to -1 only as eta goes to infinity. The threshold at which a second moment frozen at
diag C would lose stability is then no threshold of the noisy runs. Derived here, linear in the fluctuation of the
state and neglecting that of v, which is of order 1 - beta_2.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import brentq

from bandit_lab._types import Array
from bandit_lab.grpo import Gradient, Hyper, Learner, State, init, update
from bandit_lab.measure.block import (
    LinearisedBlock,
    make_block,
    moments_on_policy,
    pack,
    stationary_moment,
    unpack,
)
from bandit_lab.measure.frozen_moment import FAR
from bandit_lab.simulation import DYNAMICS
from experiments.shared.programs import bounded_jit

_ROUNDS = 60
_AGREES = 1e-9
WANDERS = (
    "noise carries the parameters along directions that do not change the policy, and the stiffness depends on where "
    "along these they are: there is no stationary state"
)


@dataclass(frozen=True)
class NoisyState:
    """Stationary state of a learner with noise, or the reason why there is none.

    second_moment: leaves that the optimiser settles at; inflation: their ratio to the values at the fixed point.
    covariance: [D, D] of the parameters at the start of a period.
    """

    second_moment: tuple[np.ndarray, ...]
    inflation: float
    covariance: np.ndarray | None
    reason: str | None


@bounded_jit("dynamics", "period")
def _response(
    learner: Learner, dynamics: str, period: int, hyper: Hyper, x: Array, second_moment: tuple, fixed: tuple
) -> Any:
    """Jacobians of (state after a period [n], gradients [period, D]) by state [n] and by noise [period, D]."""
    gradient, key = DYNAMICS[dynamics](learner), jax.random.key(0)
    template = init(learner, hyper, learner.bandit.initial_parameters)
    _, unravel = pack(template)

    def block(x: Array, noise: Array) -> tuple[Array, Array]:
        start = unpack(template, unravel, x, second_moment, fixed)

        def one(state: State, push: Array) -> tuple[State, Array]:
            def pushed(*where: Array) -> Gradient:
                clean = gradient(*where)
                return Gradient(clean.value + push, clean.silent)

            state, info = update(learner, pushed, hyper, key, state)
            return state, info.gradient

        end, gradients = jax.lax.scan(one, start, noise, length=period)
        return pack(end._replace(staleness=learner.staleness.rewind(end.staleness, period)))[0], gradients

    return jax.jacfwd(block, argnums=(0, 1))(x, jnp.zeros((period, learner.bandit.initial_parameters.shape[0])))


def _fluctuation(
    block: LinearisedBlock, second_moment: tuple, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(Sigma [q, q], mean over steps of E[g g^T] [D, D]) with these second moments; None where the radius is >= 1."""
    (jac, push), (seen, direct) = (
        [np.asarray(a) for a in pair]
        for pair in _response(
            block.learner, block.dynamics, block.period, block.hyper, block.x, second_moment, block.fixed
        )
    )
    steps, size = block.period, len(covariance)
    reuse = np.ones((steps, steps)) if block.learner.batch_reuse else np.eye(steps)
    noise = np.kron(reuse, covariance)
    inner = block.basis.T @ jac @ block.basis
    if not np.all(np.isfinite(inner)) or np.abs(np.linalg.eigvals(inner)).max() >= 1:
        return None
    push = block.basis.T @ push.reshape(len(jac), steps * size)
    state = solve_discrete_lyapunov(inner, push @ noise @ push.T)
    seen, direct = seen @ block.basis, direct.reshape(steps, size, steps * size)
    total = np.einsum("jdq,qr,jer->de", seen, state, seen) + np.einsum("jdm,mn,jen->de", direct, noise, direct)
    return state, total / steps


def noisy_state(learner: Learner, dynamics: str, hyper: Hyper, *, count: int = FAR) -> NoisyState:
    """Second moments in the noisy stationary state around the fixed point, at settings `hyper` (scalars).

    Give `second_moment` to `floquet(..., second_moment=...)` for the multipliers of the mean response of noisy runs.
    For optimisers that average squares exactly; exact gradient covariance at the fixed point; fresh samples at every
    step, or one batch for a block with `batch_reuse`. Learners without second moments get their covariance alone.

    Raises:
      ValueError: what the dynamics raise for this learner.
    """
    block, reason = make_block(learner, dynamics, hyper, count=count)
    if block is None:
        return NoisyState((), np.nan, None, reason)
    if block.neutral_turns:
        return NoisyState((), np.nan, None, WANDERS)
    if block.dynamics == "mean_field":
        return NoisyState((), np.nan, None, "an infinite group has no gradient noise")
    if block.moment is not None and block.moment.source != "exact":
        return NoisyState((), np.nan, None, "the optimiser does not average squares of the gradient")
    theta = jnp.asarray(block.theta)
    covariance = np.asarray(moments_on_policy(block.learner, block.hyper.kl_weight, theta).covariance)
    plain = block.second_moment

    def mapped(frozen: tuple) -> tuple[np.ndarray, ...] | None:
        fluctuation = _fluctuation(block, frozen, covariance)
        if fluctuation is None:
            return None
        moment = stationary_moment(block, fluctuation[1])
        return None if moment.values is None else tuple(np.asarray(v) for v in moment.values)

    frozen: tuple | None = plain
    if plain:
        frozen = _consistent(tuple(np.asarray(v) for v in plain), mapped)
    spread = None if frozen is None else _fluctuation(block, frozen, covariance)
    if frozen is None or spread is None:
        return NoisyState((), np.nan, None, "no self-consistent second moment was found")
    size = len(theta)
    into = block.basis[:size]
    ratio = [np.mean(np.asarray(a) / np.asarray(b)) for a, b in zip(frozen, plain, strict=True)]
    return NoisyState(
        tuple(np.asarray(v) for v in frozen),
        float(np.mean(ratio)) if ratio else 1.0,
        into @ spread[0] @ into.T,
        None,
    )


def _consistent(plain: tuple[np.ndarray, ...], mapped: Any) -> tuple[np.ndarray, ...] | None:
    """Fixed point of `mapped` (None: unstable, v too small): the common factor by bisection, the shape by iteration."""
    shape = plain
    for _ in range(_ROUNDS):

        def excess(log_factor: float, shape: tuple[np.ndarray, ...] = shape) -> float:
            image = mapped(tuple(np.exp(log_factor) * v for v in shape))
            if image is None:
                return 50.0
            ratios = [np.mean(np.log(a / v)) for a, v in zip(image, shape, strict=True)]
            return float(np.mean(ratios)) - log_factor

        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 100:
                return None
        factor = np.exp(brentq(excess, -1e-3, high, xtol=1e-13))
        second_moment = tuple(factor * v for v in shape)
        image = mapped(second_moment)
        if image is None:
            return None
        if all(np.allclose(a, v, rtol=_AGREES, atol=0) for a, v in zip(image, second_moment, strict=True)):
            return second_moment
        shape = tuple(np.sqrt(a * v) for a, v in zip(image, second_moment, strict=True))
    return None
