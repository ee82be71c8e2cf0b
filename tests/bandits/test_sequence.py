"""Sequences of tokens: ratios of tokens that differ from the whole, and the mean update."""

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import simulation
from bandit_lab.bandits import expected_reward
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import DrGRPO, Learner


def test_ratios_of_tokens_differ_from_their_mean_and_multiply_to_the_ratio_of_the_sequence():
    bandit = sequence(2, 3)
    old, new = jax.random.normal(jax.random.key(2), (2, 10))
    tokens = bandit.log_token_policy(new) - bandit.log_token_policy(old)
    np.testing.assert_allclose(jnp.sum(tokens, 0), bandit.log_policy(new) - bandit.log_policy(old), atol=1e-14)
    assert np.min(np.ptp(np.asarray(tokens), axis=0)) > 0.05


def test_the_mean_update_is_the_gradient_of_the_expected_reward():
    """Mean-only advantage in an infinite group; a reward table read backwards is caught."""
    rewards = np.linspace(0, 1, 8) ** 2
    bandit, theta = sequence(2, 3, rewards.tolist()), jax.random.normal(jax.random.key(3), (10,))
    drift = simulation.drift_of(Learner(bandit, DrGRPO()), "mean_field")(theta, theta, jnp.zeros(()))
    np.testing.assert_allclose(drift, jax.grad(lambda x: expected_reward(bandit, x))(theta), atol=1e-14)
    backwards = sequence(2, 3, rewards[::-1].tolist())
    assert np.max(np.abs(drift - jax.grad(lambda x: expected_reward(backwards, x))(theta))) > 0.01
