"""Rewards less their group's mean, over the std of the whole batch."""

from dataclasses import dataclass

import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.grpo.advantage.base import inverse_std, register_advantage
from bandit_lab.grpo.advantage.grpo import GRPO


@register_advantage("batch_std")
@dataclass(frozen=True)
class BatchStd(GRPO):
    """A_pi = (r_pi - mean of group p) / (std of all rewards of the batch + eps), zero if the batch is silent.

    arXiv 2508.08221 (mean of the group, std of the batch). With one prompt, and for one context in the
    limit of infinite groups, it is GRPO. An infinite batch has the law that is the mean of those of all contexts, whose
    variance is the mean variance plus the variance of the means: easy and hard prompts then scale each other. With
    few prompts the std is a random number that depends on the group: the mean is a sum over what the other groups show
    (`simulate.batch`), no closed form, and nears that limit as 1/prompts. eps and ddof are
    those of `grpo`.
    """

    def batch(self, rewards: Array) -> Array:
        """Advantages [P, G]."""
        deviation = rewards - jnp.mean(rewards, axis=1, keepdims=True)
        variance = jnp.sum((rewards - jnp.mean(rewards)) ** 2) / (rewards.size - self.ddof)
        return deviation * inverse_std(variance, jnp.all(rewards == rewards[0, 0]), self.eps)

    def population_batch(self, values: Array, laws: Array) -> Array:
        """(values - J_x) / (sigma of all + eps) [X, U]."""
        law = jnp.mean(laws, axis=0)
        variance = jnp.sum((values - law @ values) ** 2 * law)
        return (values - (laws @ values)[:, None]) * inverse_std(variance, variance <= 0, self.eps)
