"""Rewards less their group's median."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax

from bandit_lab._numerics import leading_sum
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import register_advantage


@register_advantage("median")
@dataclass(frozen=True)
class Median:
    """A_i = r_i - median; of an even group the mean of the two in the middle.

    The baseline of MC-GRPO, arXiv 2601.22582, without its exclusion of the pivot. For binary rewards in an infinite
    group the gap between a success and a failure is 1, as for Dr. GRPO: on policy the two have one mean gradient.
    """

    smallest_group = 2
    linear = False
    centred = False
    drops_silent = False

    def __call__(self, rewards: Array) -> Array:
        """Advantages [G]."""
        return rewards - jnp.median(rewards)

    def population(self, values: Array, probabilities: Array) -> Array:
        """values - median of the law, a step function of it."""
        flat = values.reshape(-1)
        below = jnp.tensordot((flat <= flat[:, None]).astype(probabilities.dtype), probabilities, 1)
        above = jnp.tensordot((flat >= flat[:, None]).astype(probabilities.dtype), probabilities, 1)
        lower = jnp.min(jnp.where(below >= 0.5, values, jnp.inf), axis=0)
        upper = jnp.max(jnp.where(above >= 0.5, values, -jnp.inf), axis=0)
        return values - (lower + upper) / 2

    def of_counts(self, values: Array, counts: Array) -> Array:
        """values - median [U, L]: the two in the middle are the last values with at most half of the group below."""
        half = leading_sum(counts) / 2

        def one_more(u: Array, found: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            below, lower, upper = found
            lower, upper = jnp.where(below < half, values[u], lower), jnp.where(below <= half, values[u], upper)
            return below + counts[u], lower, upper

        nothing = jnp.zeros_like(half)
        _, lower, upper = lax.fori_loop(0, values.shape[0], one_more, (nothing, nothing, nothing))
        return values - (lower + upper) / 2
