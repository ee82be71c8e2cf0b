"""A small world of prompts: one policy over four kinds of answers, prompts of different difficulty."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit, RewardLaw


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Prompts(Bandit):
    """X prompts that share K logits: pi(k | x) ~ exp(theta_k + offsets[x, k]).

    A prompt's offsets are how hard it is. Training sees the rewards of `law`, evaluation `reported_means` [X, K]. A
    `ContextualBandit` with unit features has the same law but other last bits (it adds its parameters to normalised
    log-probabilities), and published scores rest on these.
    """

    law: RewardLaw
    initial_parameters: Array
    reference_log_policy: Array
    offsets: Array
    reported_means: Array

    def log_policy(self, theta: Array) -> Array:
        """[K] -> [X, K]."""
        return jax.nn.log_softmax(theta + self.offsets)

    @property
    def true_means(self) -> Array:
        """Mean of the true reward [X, K]."""
        return self.reported_means


def prompts(offsets: Array, trained: Array, true: Array) -> Prompts:
    """Prompts with offsets [X, K], the chance of a reward of each arm in training [K] and in truth [K].

    The reference policy is the initial one, all shared logits zero.
    """
    shape = jnp.shape(offsets)
    chance = jnp.broadcast_to(trained, shape)
    law = RewardLaw(jnp.array([0.0, 1.0], chance.dtype), jnp.stack([1 - chance, chance], axis=-1))
    return Prompts(law, jnp.zeros_like(offsets[0]), jax.nn.log_softmax(offsets), offsets, jnp.broadcast_to(true, shape))
