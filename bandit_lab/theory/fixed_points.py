"""Interior fixed points of the KL-regularised softmax bandit, found on a line.

Derived here. Reward part h(pi) F r and reverse-KL part -beta F (theta - theta_ref) balance iff, F being invertible off
the all-ones direction, theta - theta_ref = x r + const with beta x = h: pi(x) ~ pi_ref exp(x r), one equation in the
tilt x > 0. A fixed point attracts the on-policy flow iff h(pi(x)) - beta x falls through zero there: the Jacobian
beta F - (F r)(grad h)^T is a rank-one change of beta F whose determinant has the sign of beta - dh/dx. (The forward-KL
gradient beta (pi - pi_ref) of the sampled k3 loss gives pi_a = pi_ref,a/(c - x r_a) instead, c from normalisation.)

Where h diverges at the best arm's vertex the equation has solutions only for beta >= min_x h(pi(x))/x, a saddle-node;
below it the policy runs to the vertex. Otherwise one always exists.
"""

from typing import NamedTuple

import numpy as np
import scipy

from bandit_lab import _checks
from bandit_lab._root import root
from bandit_lab.theory.stiffness import Signal, fisher, reward_hessian

HUGE = 1e300
"""Stands for an infinite factor h where numbers have to stay finite."""
_SCAN = 3000  # tilts
_CLOSER = 9  # looks at a minimum, each an eighth as wide as the one before
_SATURATED = 60.0  # logits: beyond, an arm's probability is below 1e-26
_NEAR = 1e-3  # probability by which the end of the flow may miss the fixed point that it has settled to
_FAR = 1e12  # tilt over the gap of the two best arms where the k3 gradient is followed to: pi falls like 1/tilt


class FixedPoint(NamedTuple):
    """`policy` [K], `expected_reward`, `tilt` x [1/reward], `factor` h, and whether the on-policy flow is drawn in."""

    policy: np.ndarray
    expected_reward: float
    tilt: float
    factor: float
    attracts: bool


def tilted_policy(means: np.ndarray, reference: np.ndarray, tilt: float, kl_estimator: str = "exact") -> np.ndarray:
    """pi(x) [K]: pi_ref exp(x r) normalised (`exact`), or pi_ref/(c - x r) (`k3`)."""
    if kl_estimator == "exact":
        return _softmax(np.log(reference) + tilt * np.asarray(means))
    excess = tilt * (np.max(means) - np.asarray(means))

    def surplus(margin: float) -> float:
        return float(np.sum(reference / (margin + excess)) - 1)

    best = reference[excess == 0].sum()
    margin = root(surplus, best * 0.5, 1 + excess.max())
    policy = reference / (margin + excess)
    return policy / policy.sum()


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities [..., K]: SciPy's, without its checks, which take longer than the rest."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def check_problem(signal: Signal, reference: np.ndarray, kl_weight: float, kl_estimator: str) -> np.ndarray:
    """Reference probabilities [K] as an array. Raises ValueError unless positive, of sum 1 and of the right length."""
    reference = np.asarray(reference, float)
    arms = len(signal.means)
    _checks.require(reference.shape == (arms,), "reference", f"{arms} probabilities", reference.shape)
    proper = bool((reference > 0).all()) and abs(reference.sum() - 1) < 1e-8
    _checks.require(proper, "reference", "positive probabilities that sum to 1", reference.tolist())
    _checks.non_negative("kl_weight", float(kl_weight))
    _checks.choice("kl_estimator", kl_estimator, ("exact", "k3"))
    sampled = kl_estimator == "k3" and signal.reweights_actions
    _checks.require(not sampled, "kl_estimator", "exact where silent groups are dropped", kl_estimator)
    return reference


def fixed_points(
    signal: Signal, reference: np.ndarray, kl_weight: float, kl_estimator: str = "exact"
) -> list[FixedPoint]:
    """All interior fixed points in order of tilt: none, one or several; [] at kl_weight 0.

    A scan of the tilt with about 0.5 % steps and a root in each bracket: a pair of fixed points closer than that is
    missed. Where h diverges, so is one at which all arms but the best share less than 1e-26: a vertex in double
    precision. `reference` [K] probabilities; `kl_weight` in reward per nat. Raises ValueError for an invalid
    problem.
    """
    reference = check_problem(signal, reference, kl_weight, kl_estimator)
    if kl_weight == 0:
        return []

    def excess(x: float) -> float:
        value = signal.factor(tilted_policy(signal.means, reference, x, kl_estimator))
        return min(value, HUGE) - kl_weight * x

    if np.ptp(signal.means) == 0:
        tilt = signal.factor(reference) / kl_weight
        return [FixedPoint(reference, float(signal.means[0]), tilt, tilt * kl_weight, True)]
    grid = _tilts(signal, reference, kl_weight, kl_estimator)
    if kl_estimator == "exact":
        policies = _softmax(np.log(reference) + grid[:, None] * signal.means)
        values = np.minimum(signal.factors(policies), HUGE) - kl_weight * grid
    else:
        values = np.array([excess(x) for x in grid])
    points = []
    for i in np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0):
        x = root(excess, grid[i], grid[i + 1])
        policy = tilted_policy(signal.means, reference, x, kl_estimator)
        draws = bool(values[i] > 0) and _turns_inward(signal, policy, kl_weight, kl_estimator)
        points.append(FixedPoint(policy, float(policy @ signal.means), x, signal.factor(policy), draws))
    return points


def _turns_inward(signal: Signal, policy: np.ndarray, kl_weight: float, kl_estimator: str) -> bool:
    """No eigenvalue of the on-policy stiffness with negative real part (it need not be symmetric)."""
    matrix = fisher(policy)
    stiffness = kl_weight * matrix - np.outer(matrix @ signal.means, signal.gradient(policy))
    if kl_estimator == "k3":
        stiffness = stiffness - signal.factor(policy) * reward_hessian(policy, signal.means)
    values = np.linalg.eigvals(stiffness).real
    return bool(values.min() > -1e-9 * np.abs(values).max())


def _tilts(signal: Signal, reference: np.ndarray, kl_weight: float, kl_estimator: str) -> np.ndarray:
    best = signal.means.max()
    gap = float(best - signal.means[signal.means < best].max())
    largest = HUGE / max(1.0, float(np.abs(signal.means).max()), kl_weight)  # x r and beta x stay finite
    end = min(_SATURATED if kl_estimator == "exact" else _FAR, gap * largest) / gap
    low = 1e-3 * signal.factor(reference) / kl_weight
    if not signal.unbounded:
        factor = signal.factor(tilted_policy(signal.means, reference, end, kl_estimator))
        end = min(max(end, 2 * factor / kl_weight), largest)
    return np.geomspace(min(low, 1e-3 * end), end, _SCAN)


def critical_kl_weight(signal: Signal, reference: np.ndarray, kl_estimator: str = "exact") -> float | None:
    """Smallest kl_weight with an interior fixed point, min over x of h(pi(x))/x; None if there always is one.

    With the `k3` gradient the best arm is approached only like 1/x: h/x then falls to 0 for the standardised advantage.
    Two deterministic arms, uniform reference, standardised: 1.5089 at logit gap 2.3994. Derived in this module.
    """
    reference = check_problem(signal, reference, 1.0, kl_estimator)
    if not signal.unbounded or np.ptp(signal.means) == 0:
        return None

    def weight(log_tilt: float) -> float:
        x = float(np.exp(log_tilt))
        return float(np.log(min(signal.factor(tilted_policy(signal.means, reference, x, kl_estimator)), HUGE) / x))

    grid = np.log(_tilts(signal, reference, 1.0, kl_estimator))
    grid = np.concatenate([np.linspace(grid[0] - 7, grid[0], 200)[:-1], grid])
    values = np.array([weight(x) for x in grid])
    if values[-1] <= values[:-1].min() and values[-1] < values[-2] - 0.01 * (grid[-1] - grid[-2]):
        return None
    i = int(np.clip(np.argmin(values), 1, len(grid) - 2))
    for _ in range(_CLOSER):
        grid = np.linspace(grid[i - 1], grid[i + 1], 17)
        values = np.array([weight(x) for x in grid])
        i = int(np.clip(np.argmin(values), 1, 15))
    return float(np.exp(values[i]))


def attracting_fixed_point(
    signal: Signal,
    reference: np.ndarray,
    kl_weight: float,
    initial: np.ndarray | None = None,
    kl_estimator: str = "exact",
) -> FixedPoint | None:
    """The fixed point that the on-policy mean flow from `initial` probabilities [K] ends at, or None (a vertex).

    Two arms: by the sign of the flow on the line. More arms: the flow d theta/dt = h F r - KL part is integrated until
    it settles. That is left out if there is one attractor and h is bounded. `initial` None starts at the reference.
    """
    reference = check_problem(signal, reference, kl_weight, kl_estimator)
    points = fixed_points(signal, reference, kl_weight, kl_estimator)
    stable = [p for p in points if p.attracts]
    if not stable or (len(stable) == 1 and len(points) == 1):
        return stable[0] if stable else None
    start = reference if initial is None else np.asarray(initial, float)
    policy = _settle(signal, reference, kl_weight, start, kl_estimator)
    near = min(stable, key=lambda p: float(np.abs(p.policy - policy).max()))
    return near if np.abs(near.policy - policy).max() < _NEAR else None


def settled_point(
    signal: Signal, reference: np.ndarray, kl_weight: float, initial: np.ndarray | None = None
) -> FixedPoint:
    """`attracting_fixed_point` where there is one. Raises ValueError where the flow ends at a vertex."""
    point = attracting_fixed_point(signal, reference, kl_weight, initial)
    if point is None:
        raise ValueError(f"kl_weight: expected one with an interior fixed point, got {kl_weight}")
    return point


def mean_drift(
    signal: Signal, reference: np.ndarray, kl_weight: float, logits: np.ndarray, kl_estimator: str = "exact"
) -> np.ndarray:
    """On-policy mean drift [K]: h F r - beta F (theta - log pi_ref), or with -beta (pi - pi_ref) for `k3`."""
    policy = _softmax(logits)
    matrix = fisher(policy)
    pull = matrix @ (logits - np.log(reference)) if kl_estimator == "exact" else policy - reference
    return signal.factor(policy) * (matrix @ signal.means) - kl_weight * pull


def _settle(
    signal: Signal, reference: np.ndarray, kl_weight: float, start: np.ndarray, kl_estimator: str
) -> np.ndarray:
    def speed(_: float, logits: np.ndarray) -> np.ndarray:
        return mean_drift(signal, reference, kl_weight, logits, kl_estimator)

    logits, span = np.log(start), 100.0 / max(kl_weight, 1e-6)
    for _ in range(8):
        solution = scipy.integrate.solve_ivp(speed, (0.0, span), logits, method="LSODA", rtol=1e-8, atol=1e-10)
        logits = solution.y[:, -1]
        policy = _softmax(logits)
        if np.abs(speed(0.0, logits)).max() < 1e-9 or policy.max() > 1 - 1e-12:
            return policy
        span *= 4
    return _softmax(logits)


def gap_drift(gap: np.ndarray, signal: Signal, reference_gap: float = 0.0, kl_weight: float = 0.0) -> np.ndarray:
    """Mean drift of the gap of two arms, both logits trained, reverse KL: 2 p(1-p) [h (r1 - r2) - beta (x - x_ref)]."""
    gap = np.asarray(gap, float)
    policies = np.exp(-np.logaddexp(0.0, np.stack([-gap, gap], axis=-1)))
    factor = np.array([signal.factor(p) for p in policies.reshape(-1, 2)]).reshape(gap.shape)
    pull = factor * (signal.means[0] - signal.means[1]) - kl_weight * (gap - reference_gap)
    return 2 * policies[..., 0] * policies[..., 1] * pull
