"""Where the mean update comes to rest: found by following the drift and polishing with a library's root finder."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import root

from bandit_lab._types import Array
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Learner
from bandit_lab.simulate import drift_of

_FLOW_TIMES = (1e9, 1e17)  # steps of unit learning rate: an arm of probability p settles in 1/p, a vertex is as far
_NEWTON_STEP = 1e-9  # logits; a fixed point is accepted when the next Newton step is shorter
_NEWTON_STEPS = 20
_NEAR = 1.0  # logits; polishing that leads farther away has found another point, or none
_LARGEST_GAP = 36.0  # nats; beyond, 1 - p is lost in double precision


Drift = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Reduced parameters [R] -> (drift [D], its derivative [D, R])."""


@dataclass(frozen=True)
class FixedPoint:
    """An interior fixed point of the drift of one dynamics, or the reason why there is none.

    theta: [D] (None where there is none). policy: [X, K] there, or where the flow ran to. expected_reward: reward
    units. residual: largest |drift| there. reason: None if it exists. basis: [D, R] directions that change the policy.
    """

    exists: bool
    theta: np.ndarray | None
    policy: np.ndarray
    expected_reward: float
    residual: float
    reason: str | None
    basis: np.ndarray

    @property
    def rest(self) -> np.ndarray:
        """theta [D] where it exists. Raises ValueError with the reason where it does not."""
        if self.theta is None:
            raise ValueError(f"kl_weight: expected one with an interior fixed point, {self.reason}")
        return self.theta


@partial(jax.jit, static_argnames="dynamics")
def _drift_and_jacobian(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> tuple[Array, Array]:
    drift = drift_of(learner, dynamics)

    def on_policy(x: Array) -> Array:
        return drift(x, x, kl_weight)

    return on_policy(theta), jax.jacfwd(on_policy)(theta)


@jax.jit
def _policy(learner: Learner, theta: Array) -> tuple[Array, Array, Array]:
    scores = jax.jacfwd(learner.bandit.log_policy)(theta)
    return jnp.exp(learner.bandit.log_policy(theta)), expected_reward(learner.bandit, theta), scores


def policy_directions(learner: Learner, theta: np.ndarray) -> np.ndarray:
    """Orthonormal basis [D, R] of the directions that change the policy (all-ones is projected out of a softmax)."""
    scores = np.asarray(_policy(learner, jnp.asarray(theta))[2])
    rows = scores.reshape(-1, scores.shape[-1])
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    return right[singular > 1e-10 * singular[0]].T


def find_fixed_point(
    learner: Learner, dynamics: str, kl_weight: float, initial: np.ndarray | None = None
) -> FixedPoint:
    """The interior fixed point that training reaches at small learning rate, from `initial` [D] (the bandit's).

    The drift is integrated as a stiff differential equation (scipy LSODA), then the root is polished (MINPACK hybrj,
    Newton) in the directions that change the policy. A policy that runs to a vertex has none: the drift fades there
    too, but the Newton step does not. Needs float64; an arm rarer than about 1e-13 cannot be told from one that dies
    out.

    Raises:
      ValueError: what `drift_of` raises.
    """
    start = np.asarray(learner.bandit.initial_parameters if initial is None else initial, float)
    basis = policy_directions(learner, start)
    weight = jnp.asarray(float(kl_weight))

    def drift(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, jacobian = _drift_and_jacobian(learner, dynamics, jnp.asarray(start + basis @ y), weight)
        return np.asarray(value), np.asarray(jacobian) @ basis

    def too_far(_: float, y: np.ndarray) -> float:
        return _LARGEST_GAP - np.ptp(start + basis @ y)

    too_far.terminal = True  # type: ignore[attr-defined]
    reached, since, found = np.zeros(basis.shape[1]), 0.0, None
    for until in _FLOW_TIMES:
        flow = solve_ivp(
            lambda _, y: basis.T @ drift(y)[0],
            (since, until),
            reached,
            method="LSODA",
            jac=lambda _, y: basis.T @ drift(y)[1],
            events=too_far,
            rtol=1e-6,
            atol=1e-9,
        )
        reached, since = flow.y[:, -1], until
        found = _polish(drift, basis, reached) if flow.status == 0 else None
        if found is not None or flow.status != 0:
            break
    y = reached if found is None else found
    policy, reward, _ = _policy(learner, jnp.asarray(start + basis @ y))
    reason = (
        f"no interior fixed point within a logit gap of {_LARGEST_GAP:g} nats at kl_weight={kl_weight:g}: "
        f"the policy runs to a vertex (largest probability {float(np.max(policy)):.6g})"
    )
    return FixedPoint(
        found is not None,
        None if found is None else start + basis @ y,
        np.asarray(policy),
        float(reward),
        float(np.max(np.abs(basis.T @ drift(y)[0]))),
        reason if found is None else None,
        basis,
    )


def _polish(drift: Drift, basis: np.ndarray, reached: np.ndarray) -> np.ndarray | None:
    """The root [R] of the drift close to `reached` [R], or None.

    The drift of an arm is proportional to its probability. MINPACK mixes all arms, so that a rare one drowns in the
    rounding errors of the others; Newton's method on rows of one size does not, and has the last word.
    """

    def reduced(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, jacobian = drift(y)
        return basis.T @ value, basis.T @ jacobian

    y = root(reduced, reached, jac=True, method="hybr", options={"xtol": 1e-15}).x
    if not np.linalg.norm(y - reached) < _NEAR:
        y = reached
    for _ in range(_NEWTON_STEPS):
        step = _newton_step(*drift(y))
        if not (np.all(np.isfinite(step)) and np.linalg.norm(y - step - reached) < _NEAR):
            return None
        if np.linalg.norm(step) < _NEWTON_STEP:
            return y
        y = y - step
    return None


def _newton_step(value: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Newton step [R] of D equations, value [D] and jacobian [D, R], all brought to one size."""
    size = np.linalg.norm(jacobian, axis=1)
    scale = np.where(size > 0, 1 / np.where(size > 0, size, 1), 0)
    return np.linalg.lstsq(scale[:, None] * jacobian, scale * value, rcond=None)[0]


def critical_kl_weight(learner: Learner, dynamics: str, kl_weight: float, tolerance: float = 1e-4) -> float | None:
    """The least KL weight above `kl_weight` at which training reaches an interior fixed point, by bracketing.

    Relative accuracy `tolerance`. None if there is none up to 1,000 times the given weight (or 1,000).
    """
    low, high = kl_weight, max(2 * kl_weight, 1e-2)
    while not find_fixed_point(learner, dynamics, high).exists:
        low, high = high, 2 * high
        if high > max(1e3, 1e3 * kl_weight):
            return None
    while high / max(low, 1e-12) > 1 + tolerance and high - low > 1e-9:
        middle = 0.5 * (low + high) if low <= 0 else np.sqrt(low * high)
        exists = find_fixed_point(learner, dynamics, middle).exists
        low, high = (low, middle) if exists else (middle, high)
    return float(high)
