"""Where the mean update comes to rest: found by following the drift and polishing with a library's root finder."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from bandit_lab._types import Array
from bandit_lab.grpo import Learner
from bandit_lab.measure.directions import neutral_turns, policy_at, policy_directions
from bandit_lab.simulation import check_drift, drift_of

_FLOW_TIMES = (1e9, 1e17)  # steps of unit learning rate: an arm of probability p settles in 1/p, a vertex is as far
_FLOW_STEPS = 5_000  # of the integration; a flow of some hundred is long, a drift that is all rounding never ends
_NEWTON_STEP = 1e-9  # logits; a fixed point is accepted when the next Newton step is shorter
_NEWTON_STEPS = 20
_NEAR = 1.0  # logits; polishing that leads farther away has found another point, or none
_LARGEST_GAP = 36.0  # nats; beyond, 1 - p is lost in double precision
_SMALL_STEP, _WINDOW, _WINDOWS = 0.01, 1000, 100  # learning rate and updates of a run across a jump of the drift
_AT_REST = 0.02  # logits; a run that moves less in a window rests
_CURVED_TIMES = (*(10.0**k for k in range(3, 10)), _FLOW_TIMES[-1])
_ON_THE_FLOW = 1e-5  # logits; where a polished point may lie from the flow that decides where among many it is


class _DriftField(NamedTuple):
    """The drift and its derivative apart: a solver asks for the one far more often than for the other.

    value: parameters [D] -> drift [D]. slope: (parameters [D], basis [D, R]) -> its derivative [D, R] along the basis.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class FixedPoint:
    """An interior fixed point of the drift of one dynamics, or the reason why there is none.

    theta: [D] (None where there is none). policy: [X, K] there, or where the flow ran to. expected_reward: reward
    units. residual: largest |drift| there. reason: None if it exists. basis: [D, R] directions that change the policy,
    at the fixed point; the D - R others are neutral. neutral_turns: whether those depend on theta (see
    `find_fixed_point`). slides: whether the drift jumps across 0 where the flow ran to, so that a run rests there.
    """

    exists: bool
    theta: np.ndarray | None
    policy: np.ndarray
    expected_reward: float
    residual: float
    reason: str | None
    basis: np.ndarray
    neutral_turns: bool = False
    slides: bool = False

    @property
    def rest(self) -> np.ndarray:
        """theta [D] where it exists. Raises ValueError with the reason where it does not."""
        if self.theta is None:
            raise ValueError(f"kl_weight: expected one with an interior fixed point, {self.reason}")
        return self.theta


@partial(jax.jit, static_argnames="dynamics")
def _value(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> Array:
    return drift_of(learner, dynamics)(theta, theta, kl_weight)


@partial(jax.jit, static_argnames="dynamics")
def _jacobian(learner: Learner, dynamics: str, theta: Array, kl_weight: Array) -> Array:
    return jax.jacfwd(lambda x: drift_of(learner, dynamics)(x, x, kl_weight))(theta)


def find_fixed_point(learner: Learner, dynamics: str, kl_weight: float) -> FixedPoint:
    """The interior fixed point that training reaches at small learning rate from the bandit's initial parameters.

    The drift is integrated as a stiff differential equation (scipy LSODA), then the root is polished (MINPACK hybrj,
    Newton) in the directions that change the policy. A policy that runs to a vertex has none: the drift fades there
    too, but the Newton step does not. Needs float64; an arm rarer than about 1e-13 cannot be told from one that dies
    out.

    Where the neutral directions turn with theta (p ~ theta^2: the length of theta does nothing), fixed points form a
    curve of one policy but of many stiffnesses. Then the flow is followed with all parameters: it has no neutral part,
    so it decides which of them is reached. Learning rates that are not small end farther along the curve.

    Raises:
      ValueError: what `check_drift` raises.
    """
    check_drift(learner, dynamics)
    start = np.asarray(learner.bandit.initial_parameters, float)
    basis = policy_directions(learner, start)
    if not basis.shape[1]:
        policy, reward = policy_at(learner, start)
        why = "the policy does not change with its parameters at the start: its Jacobian is zero there"
        return FixedPoint(False, None, policy, reward, 0.0, why, basis)
    turns = neutral_turns(learner, start, basis)
    weight = jnp.asarray(float(kl_weight))

    drift = _DriftField(
        lambda theta: np.asarray(_value(learner, dynamics, jnp.asarray(theta), weight)),
        lambda theta, along: np.asarray(_jacobian(learner, dynamics, jnp.asarray(theta), weight)) @ along,
    )
    if turns:
        reached, theta, basis = _along_the_curve(learner, drift, start)
    else:
        smooth = learner.sampler.smooth and learner.correction.smooth
        reached, theta = _in_the_plane(drift, start, basis, smooth)
    return _judged(learner, kl_weight, reached, theta, basis, drift, turns)


def _in_the_plane(
    drift: _DriftField, start: np.ndarray, basis: np.ndarray, smooth: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """(where the flow ran to [D], fixed point [D] or None), in the plane through `start` [D] along `basis` [D, R].

    The integration cannot cross a jump of the drift, such as a tie at the start. A run of small steps can: it goes on
    from there, until it rests or the flow is smooth again.
    """

    def velocity(y: np.ndarray) -> np.ndarray:
        return basis.T @ drift.value(start + basis @ y)

    def flow(times: tuple[float, float], y: np.ndarray) -> tuple[np.ndarray, bool]:
        return _flow(
            velocity,
            lambda y: basis.T @ drift.slope(start + basis @ y, basis),
            lambda y: float(np.ptp(start + basis @ y)),
            times,
            y,
            (1e-6, 1e-9),
        )

    reached, since, found = np.zeros(basis.shape[1]), 0.0, None
    for until in _FLOW_TIMES:
        reached, arrived = flow((since, until), reached)
        for _ in range(0 if smooth or arrived else _WINDOWS):
            y = reached
            for _ in range(_WINDOW):
                y = y + _SMALL_STEP * velocity(y)
            if np.linalg.norm(y - reached) < _AT_REST:
                break
            reached, arrived = flow((since, until), y)
            if arrived or np.ptp(start + basis @ reached) > _LARGEST_GAP:
                break
        since = until
        found = _polish(drift, start, basis, reached) if arrived else None
        if found is not None or not arrived:
            break
    return start + basis @ reached, None if found is None else start + basis @ found


def _along_the_curve(
    learner: Learner, drift: _DriftField, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """(where the flow ran to [D], fixed point [D] or None, basis [D, R] there), with all parameters.

    The times rise slowly: rounding errors along neutral directions, which nothing pulls back, add up with time.
    """

    every = np.eye(len(start))
    reached, since, found, basis = start, 0.0, None, policy_directions(learner, start)
    for until in _CURVED_TIMES:
        reached, arrived = _flow(
            drift.value,
            lambda theta: drift.slope(theta, every),
            lambda theta: _gap(learner, theta),
            (since, until),
            reached,
            (1e-10, 1e-12),
        )
        since = until
        if not arrived or not np.isfinite(_gap(learner, reached)):
            return reached, None, basis
        origin, along = reached, policy_directions(learner, reached)
        y = _polish(drift, origin, along, np.zeros(along.shape[1]))
        found = None if y is None else origin + along @ y
        if found is not None and np.linalg.norm(found - reached) < _ON_THE_FLOW and _gap(learner, found) < _LARGEST_GAP:
            return reached, found, policy_directions(learner, found)
    return reached, None, basis


def _flow(
    velocity: Callable[[np.ndarray], np.ndarray],
    slope: Callable[[np.ndarray], np.ndarray],
    gap: Callable[[np.ndarray], float],
    times: tuple[float, float],
    start: np.ndarray,
    tolerances: tuple[float, float],
) -> tuple[np.ndarray, bool]:
    """(where dy/dt = velocity(y) leads from `start`, whether at the last of the `times`).

    It ends before where the gap is too large, or after `_FLOW_STEPS` steps: the policy runs to a vertex where a drift
    that is smaller than its rounding errors turns the integration about.
    """
    relative, absolute = tolerances
    solver = scipy.integrate.LSODA(
        lambda _, y: velocity(y), times[0], start, times[1], rtol=relative, atol=absolute, jac=lambda _, y: slope(y)
    )
    for _ in range(_FLOW_STEPS):
        solver.step()
        if solver.status != "running" or gap(solver.y) > _LARGEST_GAP:
            break
    return solver.y, solver.status == "finished" and gap(solver.y) <= _LARGEST_GAP


def _gap(learner: Learner, theta: np.ndarray) -> float:
    """Log of the largest over the least probability of a context, nats."""
    with np.errstate(divide="ignore"):
        return float(np.max(np.ptp(np.log(policy_at(learner, theta)[0]), axis=-1)))


def _judged(
    learner: Learner,
    kl_weight: float,
    reached: np.ndarray,
    found: np.ndarray | None,
    basis: np.ndarray,
    drift: _DriftField,
    turns: bool,
) -> FixedPoint:
    """What was found, or why nothing."""
    place = reached if found is None else found
    policy, reward = policy_at(learner, place)
    largest = float(np.max(policy))
    reason = (
        f"no interior fixed point within a logit gap of {_LARGEST_GAP:g} nats at kl_weight={kl_weight:g}: "
        f"the policy runs to a vertex (largest probability {largest:.6g})"
    )
    smooth = learner.sampler.smooth and learner.correction.smooth
    slides = not smooth and found is None and _gap(learner, place) < _LARGEST_GAP
    if slides:
        reason = f"the mean update jumps across 0 where runs rest (largest probability {largest:.6g}): no stiffness"
    return FixedPoint(
        found is not None,
        found,
        policy,
        reward,
        float(np.max(np.abs(basis.T @ drift.value(place)))),
        reason if found is None else None,
        basis,
        turns,
        slides,
    )


def _polish(drift: _DriftField, origin: np.ndarray, basis: np.ndarray, reached: np.ndarray) -> np.ndarray | None:
    """The root [R] of the drift in the plane through `origin` [D] close to `reached` [R], or None.

    The drift of an arm is proportional to its probability. MINPACK mixes all arms, so that a rare one drowns in the
    rounding errors of the others; Newton's method on rows of one size does not, and has the last word.
    """

    def value(y: np.ndarray) -> np.ndarray:
        return drift.value(origin + basis @ y)

    def slope(y: np.ndarray) -> np.ndarray:
        return drift.slope(origin + basis @ y, basis)

    polished = scipy.optimize.root(
        lambda y: basis.T @ value(y), reached, jac=lambda y: basis.T @ slope(y), options={"xtol": 1e-15}
    )
    y = polished.x
    if not np.linalg.norm(y - reached) < _NEAR:
        y = reached
    for _ in range(_NEWTON_STEPS):
        step = _newton_step(value(y), slope(y))
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
