"""Which directions of the parameters change the policy; the others are neutral and no part of a displacement.

The policy sees theta through d log pi / d theta, whose row space changes it to first order. What is orthogonal to that
row space does nothing and never decays: a displacement along it has the multiplier 1 at every learning rate. The
neutral direction of a softmax is the same everywhere (all-ones); that of p ~ theta^2 is theta itself and turns with it.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit, expected_reward
from bandit_lab.grpo import Learner

_RANK = 1e-10  # smallest singular value, relative to the largest, of a direction that changes the policy
_BESIDE, _TURNED = 1e-2, 1e-7  # relative displacement of theta, and the turn of the neutral directions that counts
_ROUNDING = 1e-9  # neutral share of a direction below which it is left as it is, bit by bit


@jax.jit
def _policy(bandit: Bandit, theta: Array) -> tuple[Array, Array]:
    return jnp.exp(bandit.log_policy(theta)), expected_reward(bandit, theta)


@jax.jit
def scores_at(bandit: Bandit, theta: Array) -> Array:
    """d log pi / d theta [X, K, D] at theta [D]: forward mode, or reverse mode with more parameters than actions."""
    actions = jax.eval_shape(bandit.log_policy, theta).size
    mode = jax.jacfwd if theta.size <= actions else jax.jacrev
    return mode(bandit.log_policy)(theta)


def policy_at(learner: Learner, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """(policy [X, K], expected reward) at theta [D]."""
    policy, reward = _policy(learner.bandit, jnp.asarray(theta))
    return np.asarray(policy), float(reward)


def policy_directions(learner: Learner, theta: np.ndarray) -> np.ndarray:
    """Orthonormal basis [D, R] of the directions that change the policy at theta [D] (no all-ones for a softmax)."""
    scores = np.asarray(scores_at(learner.bandit, jnp.asarray(theta)))
    rows = scores.reshape(-1, scores.shape[-1])
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    return right[singular > _RANK * singular[0]].T


def neutral_turns(learner: Learner, theta: np.ndarray, basis: np.ndarray) -> bool:
    """Whether the neutral directions depend on theta, seen at two places around theta [D] with `basis` [D, R]."""
    draw = np.random.default_rng(0)
    for _ in range(2):
        beside = theta + _BESIDE * np.where(theta == 0, 1.0, theta) * draw.uniform(0.5, 1.0, len(theta))
        if not np.all(np.isfinite(scores_at(learner.bandit, jnp.asarray(beside)))):
            continue
        other = policy_directions(learner, beside)
        if other.shape != basis.shape or np.max(np.abs(other @ other.T - basis @ basis.T)) > _TURNED:
            return True
    return False


def changing_part(
    learner: Learner, theta: np.ndarray, direction: np.ndarray, bandits: Any = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """(the part of directions [C, D] that changes the policy at theta [C, D], projectors [C, D, D] on it or None).

    None where neutral directions are the same everywhere: the drift has no part along them. Where they turn, a
    displacement x moves the parameters by about x^2 along them, and that stays when x has decayed.

    bandits: one per cell (`stack_bandits`) instead of the learner's.

    Raises:
      ValueError: a direction that does not change the policy.
    """
    if bandits is None:
        places, which = np.unique(theta, axis=0, return_inverse=True)
        learners = [learner] * len(places)
    else:
        places, which = theta, np.arange(len(theta))
        learners = [replace(learner, bandit=jax.tree.map(lambda x, i=i: x[i], bandits)) for i in which]
    bases = [policy_directions(one, place) for one, place in zip(learners, places, strict=True)]
    result, which = np.array(direction, float), which.reshape(-1)
    for row, basis in enumerate(bases[i] for i in which):
        inside = basis @ (basis.T @ result[row])
        size, whole = np.linalg.norm(inside), np.linalg.norm(result[row])
        if not size > _ROUNDING * whole:
            raise ValueError(f"direction: expected one that changes the policy, got {direction[row].tolist()}")
        if np.linalg.norm(result[row] - inside) > _ROUNDING * whole:
            result[row] = inside
    if not len(places) or not neutral_turns(learners[0], places[0], bases[0]):
        return result, None
    return result, np.stack([basis @ basis.T for basis in bases])[which]
