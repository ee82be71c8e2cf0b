"""Where the mean update comes to rest: found by following the drift and polishing with a library's root finder."""

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

_FLOW_TIME = 1e9  # steps of unit learning rate; a policy that runs to a vertex needs exp(logit gap) of them
_NEWTON_STEP = 1e-9  # logits; a fixed point is accepted when the next Newton step is shorter
_LARGEST_GAP = 36.0  # nats; beyond, 1 - p is lost in double precision


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

    The drift is integrated as a stiff differential equation (scipy LSODA), then the root is polished (MINPACK hybrj)
    in the directions that change the policy. A policy that runs to a vertex has none: the drift fades there too, but
    the Newton step does not. Needs float64.

    Raises:
      ValueError: what `drift_of` raises.
    """
    start = np.asarray(learner.bandit.initial_parameters if initial is None else initial, float)
    basis = policy_directions(learner, start)
    weight = jnp.asarray(float(kl_weight))

    def reduced(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, jacobian = _drift_and_jacobian(learner, dynamics, jnp.asarray(start + basis @ y), weight)
        return basis.T @ np.asarray(value), basis.T @ np.asarray(jacobian) @ basis

    def too_far(_: float, y: np.ndarray) -> float:
        return _LARGEST_GAP - np.ptp(start + basis @ y)

    too_far.terminal = True  # type: ignore[attr-defined]
    flow = solve_ivp(
        lambda _, y: reduced(y)[0],
        (0, _FLOW_TIME),
        np.zeros(basis.shape[1]),
        method="LSODA",
        jac=lambda _, y: reduced(y)[1],
        events=too_far,
        rtol=1e-6,
        atol=1e-9,
    )
    reached = flow.y[:, -1]
    polished = root(reduced, reached, jac=True, method="hybr", options={"xtol": 1e-15})
    value, jacobian = reduced(polished.x)
    newton = np.linalg.lstsq(jacobian, value, rcond=None)[0]
    stays = np.linalg.norm(polished.x - reached) < 1.0
    at_rest = np.all(np.isfinite(newton)) and np.linalg.norm(newton) < _NEWTON_STEP
    exists = bool(flow.status == 0 and stays and at_rest)
    theta = start + basis @ (polished.x if exists else reached)
    policy, reward, _ = _policy(learner, jnp.asarray(theta))
    reason = (
        None
        if exists
        else (
            f"no interior fixed point within a logit gap of {_LARGEST_GAP:g} nats at kl_weight={kl_weight:g}: "
            f"the policy runs to a vertex (largest probability {float(np.max(policy)):.6g})"
        )
    )
    return FixedPoint(
        exists,
        theta if exists else None,
        np.asarray(policy),
        float(reward),
        float(np.max(np.abs(value))),
        reason,
        basis,
    )


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
