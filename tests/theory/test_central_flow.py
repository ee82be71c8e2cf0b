"""Mean and covariance of an update of many groups, closed, against the exact moments of the laboratory's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.bandits.neural import neural
from bandit_lab.grpo import Learner
from bandit_lab.simulation.finite_group import group_moments
from experiments.shared.theory import central_flow, gradient_flow
from experiments.shared.theory.central_flow import GroupUpdate, groups_of

BANDIT, WEIGHT = neural(2, 2, 2, width=4, seed=1), 0.3


def groups(size, prompts=1) -> GroupUpdate:
    return groups_of(gradient_flow.climb_of(BANDIT, WEIGHT), theory.GroupLaw("grpo", size), prompts)


@pytest.mark.parametrize(("size", "prompts"), [(2, 1), (8, 4)])
def test_mean_and_covariance_of_an_update_are_those_of_the_simulation(size, prompts):
    """To rounding, at a place where prompts differ; planted: another group size."""
    theta = BANDIT.initial_parameters + 0.5 * jax.random.normal(jax.random.key(1), BANDIT.initial_parameters.shape)
    exact = group_moments(Learner(BANDIT, group_size=size, prompts=prompts))(WEIGHT, theta, theta)
    basis = jnp.eye(len(theta))
    np.testing.assert_allclose(central_flow.mean_update(groups(size), theta), exact.mean, rtol=1e-9, atol=1e-13)
    covariance = central_flow.update_covariance(groups(size, prompts), theta, basis)
    np.testing.assert_allclose(covariance, exact.covariance, rtol=1e-9, atol=1e-13)
    other = central_flow.update_covariance(groups(size + 1, prompts), theta, basis)
    assert np.max(np.abs(other - exact.covariance)) > 1e-3 * np.max(np.abs(covariance))
