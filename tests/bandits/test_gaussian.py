"""Normal rewards: nodes against samples, exact moments, and groups that are never silent."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits.gaussian import gaussian
from bandit_lab.grpo import GRPO, DrGRPO, Learner

BANDIT = gaussian((1.0, 0.4, -0.3), (0.3, 0.5, 0.8), reference_logits=(0.0, 0.2, -0.1))


def test_the_nodes_have_the_moments_of_the_normal_law():
    law = BANDIT.law
    np.testing.assert_allclose(law.means, [[1.0, 0.4, -0.3]], atol=1e-14)
    fourth = law.probabilities[0] @ law.values**4
    mean, std = np.array([1.0, 0.4, -0.3]), np.array([0.3, 0.5, 0.8])
    np.testing.assert_allclose(fourth, mean**4 + 6 * mean**2 * std**2 + 3 * std**4, rtol=1e-12)


def test_samples_have_mean_and_std_of_the_arm():
    """n = 200,000 per arm, seed 5, |z| <= 5 on six numbers: false alarm below 4e-6. Stds in reverse are caught."""
    n, std = 200_000, np.array([0.3, 0.5, 0.8])
    rewards = BANDIT.sample_rewards(jax.random.key(5), jnp.int32(0), jnp.repeat(jnp.arange(3), n)).reshape(3, -1)
    assert np.max(np.abs(rewards.mean(1) - BANDIT.means) / (std / np.sqrt(n))) <= 5

    def z(std):
        return np.max(np.abs(rewards.std(1) - std) / (std / np.sqrt(2 * n)))

    assert z(std) <= 5 < z(std[::-1])


@pytest.mark.parametrize("advantage", [GRPO(), DrGRPO()])
def test_the_mean_field_gradient_is_the_policy_gradient_over_the_std(advantage):
    """By hand: F r / sigma with sigma^2 = E[mean^2 + std^2] - J^2 (mean-only: F r)."""
    theta, zero = jnp.array([0.3, -0.2, 0.5]), jnp.zeros(())
    drift = simulation.drift_of(Learner(BANDIT, advantage), "mean_field")(theta, theta, zero)
    policy = np.asarray(jax.nn.softmax(theta))
    mean, std = np.asarray(BANDIT.means), np.asarray(BANDIT.stds)
    value = policy @ mean
    sigma = np.sqrt(policy @ (mean**2 + std**2) - value**2) if isinstance(advantage, GRPO) else 1.0
    np.testing.assert_allclose(drift, policy * (mean - value) / sigma, rtol=1e-12)


def test_finite_groups_are_refused_and_sampled_ones_are_never_silent():
    with pytest.raises(ValueError, match="finitely many reward values"):
        simulation.finite_group(Learner(BANDIT))
    gradient = simulation.sampled(Learner(BANDIT, group_size=4, prompts=64))
    theta = jnp.zeros(3)
    assert float(gradient(jax.random.key(0), jnp.zeros(()), theta, theta).silent) == 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"stds": (0.1, 0.2)}, "bandit.stds"),
        ({"stds": (0.1, 0.0, 0.2)}, "bandit.stds[1]"),
        ({"rewards": (1.0,)}, "bandit.rewards"),
    ],
)
def test_bad_arguments_are_named(options, name):
    with pytest.raises(ValueError, match=re.escape(name)):
        gaussian(**options)
