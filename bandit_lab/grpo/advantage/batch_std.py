"""Rewards less their group's mean, over the std of the whole batch."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import BatchWide, mean_of, register_advantage, spread_of
from bandit_lab.grpo.advantage.grpo import GRPO


@register_advantage("batch_std")
@dataclass(frozen=True)
class BatchStd(BatchWide, GRPO):
    """A_pi = (r_pi - mean of group p) / (std of all rewards of the batch + eps), zero if the batch is silent.

    arXiv 2508.08221 (mean of the group, std of the batch). With one prompt, and for one context in the
    limit of infinite groups, it is GRPO. The law of an infinite batch is the mean of those of all contexts. Its
    variance is the mean variance plus the variance of the means: easy and hard prompts then scale each other. With
    few prompts the std is a random number that depends on the group: the mean is a sum over what the other groups show
    (`simulation.finite_group`), no closed form, and nears that limit as 1/prompts. eps and ddof are
    those of `grpo`.
    """

    def batch_advantages(self, values: Array, shares: Array, size: int | None) -> Array:
        """(values - mean of the group) / (std of all + eps) [U, P, ...]."""
        groups = shares.shape[1]
        whole = (x.reshape(-1, *x.shape[2:]) for x in jnp.broadcast_arrays(values, shares / groups))
        scale = self.scale(*spread_of(*whole), size and size * groups)
        return (values - mean_of(values, shares)) * scale
