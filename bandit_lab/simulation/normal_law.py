"""Normal rewards in an infinite group: means over them by quadrature between the places where an advantage jumps.

Gauss-Hermite nodes integrate what is smooth in the reward. A step (`sign`) or a change of sign at which an estimator
clips is none: sixteen nodes are then off by tens of percent, and more of them converge as one over their number. So the
law of every arm is cut where the advantage says, and each part is integrated by Gauss-Legendre nodes of its own. An
advantage that does not say it keeps the nodes of the bandit, if eight times as many of them agree (`check_nodes`).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.grpo import Learner, batch_advantages

FAR = 9.0  # standard deviations; what lies beyond has a chance of 2e-19
NODES = 48  # of each part
FINER = 8
AGREE = 1e-3  # of the largest mean advantage
_POLICIES = 4


def cuts(learner: Learner) -> bool:
    """Whether rewards are normal and the advantage says where it jumps among them (`Advantage.in_normal_group`)."""
    kind = type(learner.advantage).__mro__
    owners = [next((one for one in kind if name in vars(one)), None) for name in ("in_normal_group", "advantages")]
    normal = not learner.bandit.exact_law and learner.bandit.normal_stds is not None
    # A rule that has another `advantages` than the one it inherits has not said where that jumps.
    return normal and None not in owners and issubclass(*owners)  # type: ignore[arg-type]


def nodes_of(learner: Learner, policy: Array) -> tuple[Array, Array]:
    """(probability of every node given its arm [X, K, U], advantage there [X, K, U]) in groups under policy [X, K]."""
    rule: Any = learner.advantage
    points, widths = (jnp.asarray(part, policy.dtype) for part in np.polynomial.legendre.leggauss(NODES))

    def one(share: Array, means: Array, stds: Array) -> tuple[Array, Array]:
        cut, advantage = rule.in_normal_group(share, means, stds)
        edge = jnp.clip((cut - means) / stds, -FAR, FAR)[:, None]
        half = jnp.repeat(jnp.concatenate([edge + FAR, FAR - edge], axis=1) / 2, NODES, axis=1)
        middle = jnp.repeat(jnp.concatenate([edge - FAR, FAR + edge], axis=1) / 2, NODES, axis=1)
        z = middle + half * jnp.tile(points, 2)
        chance = half * jnp.tile(widths, 2) * jnp.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return chance, advantage(means[:, None] + stds[:, None] * z)

    return jax.vmap(one)(policy, learner.bandit.law.means, jnp.asarray(learner.bandit.normal_stds, policy.dtype))


def check_nodes(learner: Learner) -> None:
    """Raise ValueError where the bandit's nodes do not give the mean of an advantage over normal rewards."""
    bandit = learner.bandit
    if bandit.exact_law or bandit.normal_stds is None or cuts(learner):
        return
    means, stds = np.asarray(bandit.law.means), np.asarray(bandit.normal_stds)
    few = bandit.law.values.shape[0] // means.shape[1]
    drawn = np.random.default_rng(0).dirichlet(np.ones(means.shape[1]), (_POLICIES, means.shape[0]))

    def mean_of(values: np.ndarray, law: np.ndarray) -> np.ndarray:
        averages = []
        for policy in drawn:
            shares = jnp.asarray(np.einsum("xk,xku->ux", policy, law))
            advantage = batch_advantages(learner.advantage, jnp.asarray(values)[:, None], shares, None)
            averages.append(np.einsum("xku,ux->xk", law, np.asarray(advantage)))
        return np.array(averages)

    coarse = mean_of(np.asarray(bandit.law.values), np.asarray(bandit.law.probabilities))
    z, weight = np.polynomial.hermite_e.hermegauss(FINER * few)
    own = np.eye(means.size).reshape(*means.shape, means.size)
    fine = mean_of((means[..., None] + stds[..., None] * z).ravel(), np.kron(own, weight / weight.sum()))
    off = np.max(np.abs(coarse - fine)) / max(np.max(np.abs(fine)), np.finfo(float).tiny)
    _checks.require(
        bool(off <= AGREE),
        "advantage",
        f"one that {few} nodes integrate over normal rewards (or that says where it jumps: in_normal_group) for "
        "dynamics=mean_field; dynamics=sampled has no such limit",
        f"{type(learner.advantage).__name__}, whose mean moves by {off:.1%} with {FINER * few} nodes",
    )
