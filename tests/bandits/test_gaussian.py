"""Normal rewards: nodes against samples, exact moments, and groups that are never silent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits.gaussian import gaussian
from bandit_lab.grpo import GRPO, DrGRPO, Learner

BANDIT = gaussian((1.0, 0.4, -0.3), (0.3, 0.5, 0.8), reference_logits=(0.0, 0.2, -0.1))


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
