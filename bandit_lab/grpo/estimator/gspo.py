"""One clipped ratio per sequence: the geometric mean of those of its tokens."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.estimator.base import register_estimator
from bandit_lab.grpo.estimator.clip_higher import ClipHigher


@register_estimator("gspo")
@dataclass(frozen=True)
class GSPO(ClipHigher):
    """min(s A, clip(s, 1 - epsilon_low, 1 + epsilon_high) A), s = (pi(y) / pi_old(y))^(1/L). arXiv 2507.18071.

    Its gradient is s A (1/L) grad log pi(y), or 0 beyond the clip. One token: `clip_higher`. The narrow defaults are
    those of its experiments. The mean at any G is a sum over sequences. On policy it is that of `ratio` over L, but
    a step of the policy moves it less: d log s = d log ratio / L. No closed form beyond that: which sequences
    are cut depends on all of their tokens.
    """

    epsilon_low: float = 3e-4
    epsilon_high: float = 4e-4

    def token_weights(self, ratio: Array, advantage: Array) -> Array:
        """The sequence's weight over L, the same for all of its tokens [L, ...]."""
        weight = self.weight(jnp.exp(jnp.mean(jnp.log(ratio), axis=0)), advantage)
        return jnp.broadcast_to(weight / ratio.shape[0], (ratio.shape[0], *weight.shape))
