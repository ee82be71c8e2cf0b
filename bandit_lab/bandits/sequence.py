"""Short sequences of tokens with one reward at the end: each token has a ratio of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits.base import Bandit, RewardLaw, register_bandit
from bandit_lab.bandits.tabular import k_arm

LARGEST = 4096


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SequenceBandit(Bandit):
    """A policy that writes L tokens out of V, each given the one before; an arm is a whole sequence, K = V^L.

    theta = V logits of the first token, then [L - 1, V, V] logits of the others, row = token before. One token (L = 1)
    is the K-arm softmax.

    tokens: [K, L] integers, in lexicographic order.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    tokens: Array
    lexicographic = True

    def log_token_policy(self, theta: Array) -> Array:
        """Log-probability of every token given the one before: [D] -> [L, 1, K]."""
        length = self.tokens.shape[1]
        size = round(self.tokens.shape[0] ** (1 / length))
        first = jax.nn.log_softmax(theta[:size])[self.tokens[:, 0]]
        later = jax.nn.log_softmax(theta[size:].reshape(length - 1, size, size))
        later = later[jnp.arange(length - 1), self.tokens[:, :-1], self.tokens[:, 1:]]
        return jnp.concatenate([first[:, None], later], axis=1).T[:, None, :]

    def log_policy(self, theta: Array) -> Array:
        """Log-probability of every sequence, the sum over its tokens: [D] -> [1, K].

        One token after the other, so that sequences share what their beginnings have in common.
        """
        length = self.tokens.shape[1]
        size = round(self.tokens.shape[0] ** (1 / length))
        each = jax.nn.log_softmax(theta.reshape(-1, size))
        total = each[0]
        for later in each[1:].reshape(length - 1, size, size):
            total = (total.reshape(-1, size, 1) + later).reshape(-1)
        return total[None]


@register_bandit("sequence")
def sequence(
    vocabulary: int = 2,
    length: int = 3,
    rewards: Sequence[float] | None = None,
    initial_logits: Sequence[float] | None = None,
) -> SequenceBandit:
    """Sequences of `length` tokens out of `vocabulary`, uniform reference policy.

    Args:
      rewards: [V^L] success probability of every sequence in lexicographic order; default: 0.9 where all tokens are
        the first one, else 0.1.
      initial_logits: [V + (L - 1) V^2] parameters at step 0; default zeros.

    Raises:
      ValueError: vocabulary < 2, length < 1, more than LARGEST sequences, what `k_arm` raises, another number of
        logits.
    """
    size, steps = _checks.integer("bandit.vocabulary", vocabulary, 2), _checks.integer("bandit.length", length, 1)
    _checks.require(size**steps <= LARGEST, "bandit.length", f"at most {LARGEST} sequences", size**steps)
    tokens = np.array(list(product(range(size), repeat=steps)))
    means = [0.9] + [0.1] * (len(tokens) - 1) if rewards is None else rewards
    _checks.require(len(means) == len(tokens), "bandit.rewards", f"{len(tokens)} numbers", len(means))
    arms, free = k_arm(means), size + (steps - 1) * size**2
    start = np.zeros(free) if initial_logits is None else _checks.numbers("bandit.initial_logits", initial_logits, free)
    return SequenceBandit(arms.law, jax.device_put(np.array(start)), arms.reference_log_policy, jax.device_put(tokens))
