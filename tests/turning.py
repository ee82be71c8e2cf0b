"""Bandits whose neutral directions turn with the parameters, for tests; nothing here registers itself."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bandit_lab.bandits import Bandit, RewardLaw, k_arm


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Escort(Bandit):
    """p_k = theta_k^2 / |theta|^2: the length of theta is neutral."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array

    def log_policy(self, theta):
        return (jnp.log(theta**2) - jnp.log(jnp.sum(theta**2)))[None]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Product(Bandit):
    """Two arms with logit gap u v: scaling u up and v down by one factor is neutral."""

    law: RewardLaw
    initial_parameters: jax.Array
    reference_log_policy: jax.Array

    def log_policy(self, theta):
        gap = theta[0] * theta[1]
        return jax.nn.log_sigmoid(jnp.stack([gap, -gap]))[None]


def build_escort(rewards=(0.9, 0.1), length=1.0) -> Escort:
    """Starts at the uniform policy with a theta of this length."""
    arms = k_arm(rewards)
    return Escort(arms.law, jnp.full(len(rewards), length / jnp.sqrt(len(rewards))), arms.reference_log_policy)


def build_product(u=1.0, v=0.5) -> Product:
    """Two arms, 0.9 and 0.1."""
    arms = k_arm((0.9, 0.1))
    return Product(arms.law, jnp.array([u, v]), arms.reference_log_policy)
