"""A network whose tangent kernel is frozen at its start: the lazy limit of large width or large output scale.

Where weights hardly move, logits are linear in them (arXiv 1806.07572, 1812.07956): those of the start plus J (theta -
theta_0), J = d logits / d theta at theta_0. The policy still moves, and the stiffness with it: it is J^T H J plus what
the softmax of every token adds, H being that of the plain bandit at the policy of the moment. So the start alone says
what a run of the lazy network does, but the stiffness *at* the start says it only where the policy hardly moves.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.shared.theory.gradient_flow import Climb

RANK = 1e-12
"""Eigenvalue of the tangent kernel, relative to the largest, below which a direction changes no logit."""


def lazy_climb(bandit: Any, kl_weight: float) -> Climb:
    """The climb (`gradient_flow.climb_of`) of a network that is linear about its start, at a KL weight per nat.

    Its parameters [R] are lengths along orthonormal directions of the weights that change a logit, 0 at the start.
    Rates, times and stiffnesses are so those of the weights. R is at most the number of logits, however wide the
    network is. Of the bandit are read: `logits` of weights [D] -> [X, K, L, V], `tokens` [K, L], and what `climb_of`
    reads.
    """
    start = bandit.initial_parameters
    logits = bandit.logits(start)
    slope = np.asarray(jax.jacrev(lambda theta: bandit.logits(theta).reshape(-1))(start))
    sizes, directions = np.linalg.eigh(slope @ slope.T)
    large = sizes > RANK * sizes[-1]
    columns = jnp.asarray(directions[:, large] * np.sqrt(sizes[large]))
    policy = jax.tree_util.Partial(_log_policy, columns, logits, bandit.tokens)
    success = bandit.law.probabilities[..., 1]
    return Climb(
        policy, jnp.zeros(columns.shape[1]), success, bandit.reference_log_policy, jnp.asarray(float(kl_weight))
    )


def _log_policy(columns: Array, start: Array, tokens: Array, along: Array) -> Array:
    logits = start + (columns @ along).reshape(start.shape)
    chosen = jax.nn.one_hot(tokens, logits.shape[-1], dtype=logits.dtype)
    return jnp.sum(jax.nn.log_softmax(logits) * chosen, axis=(-2, -1))
