"""Prompts that share parameters: independent at overlap 0, and the cosine of their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits import k_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.grpo import Hyper, Learner

pytestmark = pytest.mark.usefixtures("compiled_quickly")

REWARDS = [[0.9, 0.5, 0.1], [0.2, 0.7, 0.4], [0.6, 0.1, 0.3], [0.5, 0.4, 0.8]]


def curve(bandit, dynamics, rate, steps=60):
    cell = Hyper(*(np.array([x]) for x in (rate, 0.5, 4, 0.3)))
    learner = Learner(bandit, group_size=4)
    return simulation.run(learner, dynamics, cell, steps=steps, dtype=np.float64, path="reference").reward_mean[0]


@pytest.mark.parametrize("dynamics", ["mean_field", "finite_group"])
def test_orthogonal_prompts_are_independent_bandits(dynamics):
    """A group belongs to one of X prompts: each learns at learning rate over X, whatever the others do. Features that
    overlap by 0.2 are caught."""
    together = curve(contextual(4, 3, rewards=REWARDS, spread=0.0), dynamics, 2.0)
    rows = [contextual(1, 3, rewards=[row], spread=0.0) for row in REWARDS]
    np.testing.assert_allclose(together, np.mean([curve(row, dynamics, 0.5) for row in rows], 0), atol=1e-12)
    assert np.max(np.abs(curve(contextual(4, 3, 0.2, rewards=REWARDS, spread=0.0), dynamics, 2.0) - together)) > 1e-3


def test_one_prompt_is_k_arm():
    one = contextual(1, 3, rewards=REWARDS[:1], spread=0.0, features=[np.eye(3).tolist()])
    arms = k_arm(REWARDS[0], np.asarray(one.reference_log_policy)[0].tolist(), np.zeros(3).tolist())
    theta = jnp.array([0.2, -0.1, 0.4])
    shifted = theta + jnp.asarray(arms.reference_log_policy)[0]
    drift = [
        simulation.drift_of(Learner(b, group_size=4), "finite_group")(x, x, jnp.full((), 0.3))
        for b, x in ((one, theta), (arms, shifted))
    ]
    np.testing.assert_allclose(*drift, atol=1e-14)


def gradients(bandit):
    """Gradient [X, D] of each prompt's expected reward at the start."""
    return jax.jacfwd(lambda x: jnp.sum(jnp.exp(bandit.log_policy(x)) * bandit.law.means, -1))(
        bandit.initial_parameters
    )


@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
def test_overlap_is_the_cosine_of_prompt_gradients(overlap):
    """Two prompts agree, the third has another good arm: two arms, so that the cosine is minus the overlap."""
    g = np.asarray(gradients(contextual(3, 2, overlap, conflict=1 / 3, spread=0.0)))
    cosine = g @ g.T / np.sqrt(np.outer((g**2).sum(1), (g**2).sum(1)))
    np.testing.assert_allclose(cosine[0, 1], overlap, atol=1e-14)
    np.testing.assert_allclose(cosine[0, 2], -overlap, atol=1e-14)


def test_only_some_prompts_keep_the_parameters():
    bandit = contextual(5, 3, 0.4, seed=3)
    theta = jax.random.normal(jax.random.key(1), bandit.initial_parameters.shape)
    part = bandit.only(slice(3, 5))
    np.testing.assert_allclose(part.log_policy(theta), bandit.log_policy(theta)[3:], atol=1e-15)
    np.testing.assert_array_equal(part.law.means, bandit.law.means[3:])
