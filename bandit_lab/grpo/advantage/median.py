"""Rewards less their group's median."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax
from jax.scipy.stats import norm

from bandit_lab._numerics import leading_max, leading_sum_of
from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import register_advantage

_HALVINGS = 60


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

    def in_normal_group(self, share: Array, means: Array, stds: Array) -> tuple[Array, Callable[[Array], Array]]:
        """(The median of the mixture, rewards less it): bisection, then two steps of Newton that have its derivatives.

        The first of them has the first derivative in the shares, the second one the second.
        """

        def below(value: Array) -> Array:
            return share @ norm.cdf((value - means) / stds) / jnp.sum(share) - 0.5

        def halved(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            low = below(middle) < 0
            return jnp.where(low, middle, ends[0]), jnp.where(low, ends[1], middle)

        ends = (jnp.min(means), jnp.max(means))  # each arm has half of its rewards on either side of its own mean
        low, high = lax.stop_gradient(lax.fori_loop(0, _HALVINGS, halved, lax.stop_gradient(ends)))
        median = (low + high) / 2
        for _ in range(2):
            density = share @ (norm.pdf((median - means) / stds) / stds) / jnp.sum(share)
            median = median - jnp.where(density > 0, below(median) / jnp.where(density > 0, density, 1), 0)
        return median, lambda rewards: rewards - median
