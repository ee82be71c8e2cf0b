"""Rewards less their group's median."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax

from bandit_lab._numerics import leading_max, leading_sum_of
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

    def advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """values - median: the mean of the largest values with less than half, and at most half, of the group below.

        A step function of the shares. Those of a finite group are rounded to the counts that they stand for.
        """
        weights, half = (shares, 0.5) if size is None else (jnp.round(shares * size), size / 2)

        def if_below(value: Array, weight: Array) -> Array:
            return jnp.where(value < values, weight, 0)

        below = leading_sum_of(if_below, values[:, None], lax.stop_gradient(weights)[:, None])
        lower, upper = (leading_max(jnp.where(u, values, -jnp.inf)) for u in (below < half, below <= half))
        return values - (lower + upper) / 2
