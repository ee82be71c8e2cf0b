"""The other groups of a batch, exactly: what they can look like where an advantage sees all of them.

The P - 1 other groups of a step are independent and alike: each belongs to a context drawn uniformly, and shows each
reward value so often as a multinomial of that context's law. Their order does not matter, so that a batch is a count
of the W = C(G + U - 1, G) kinds of groups, again a multinomial, with the mean chances of the contexts.
"""

from math import comb
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from bandit_lab._numerics import log_of_powers
from bandit_lab._types import Array
from bandit_lab.grpo import Learner, sees_batch


class RestOfBatch(NamedTuple):
    """kinds: [W, U] counts of a group. log_orders: [W]. batches: [B, W] counts of kinds. log_ways: [B].

    groups: [B, P - 1, U] counts of all groups of each batch.
    """

    kinds: np.ndarray
    log_orders: np.ndarray
    batches: np.ndarray
    log_ways: np.ndarray
    groups: np.ndarray

    def chances(self, value_law: Array) -> Array:
        """[B] of each batch, where a group of context x shows the values with the law `value_law` [X, U]."""
        dtype = value_law.dtype
        log_kinds = self.log_orders.astype(dtype) + log_of_powers(value_law[:, None, :], self.kinds)
        kinds = jnp.mean(jnp.exp(log_kinds), axis=0)
        return jnp.exp(self.log_ways.astype(dtype) + log_of_powers(kinds, self.batches))


def see_others(learner: Learner) -> bool:
    """Whether an action's advantage depends on groups besides its own."""
    return sees_batch(learner.advantage) and learner.prompts > 1


def ways_of_others(learner: Learner) -> int:
    """B, the number of batches of other groups; 1 where they do not matter."""
    if not see_others(learner):
        return 1
    values = learner.bandit.law.values.shape[0]
    kinds = comb(learner.group_size + values - 1, values - 1)
    return comb(learner.prompts - 1 + kinds - 1, kinds - 1)
