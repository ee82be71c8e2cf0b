"""Arms in modes: the arms of a mode, the time scale that many arms make, and the limit of one arm per mode."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import simulation
from bandit_lab.bandits import k_arm
from bandit_lab.bandits.modes import modes
from bandit_lab.grpo import Hyper, Learner
from experiments.shared.theory.two_arm import sinh_law


def curve(bandit, rate, steps):
    cell = Hyper(*(np.array([x]) for x in (rate, 0.0, 1, 0.0)))
    return simulation.run(Learner(bandit), "mean_field", cell, steps=steps, dtype=np.float64).reward_mean[0]


def test_one_arm_per_mode_is_k_arm():
    one, many = k_arm((0.9, 0.5, 0.1)), modes((0.9, 0.5, 0.1), (1, 1, 1))
    np.testing.assert_array_equal(one.law.probabilities, many.law.probabilities)
    np.testing.assert_array_equal(curve(one, 0.1, 30), curve(many, 0.1, 30))


def test_the_arms_of_a_mode_share_its_reward_and_may_differ_in_probability():
    bandit = modes((0.9, 0.1), (2, 3), spread=1.0, seed=4)
    np.testing.assert_allclose(bandit.true_means[0], [0.9, 0.9, 0.1, 0.1, 0.1], atol=1e-15)
    policy = np.exp(bandit.log_policy(bandit.initial_parameters))[0]
    assert np.ptp(policy[:2]) > 0.01


def test_equal_arms_within_modes_are_two_arms_with_another_time_scale():
    """c = 1/n_1 + 1/n_0 in place of 2, checked on the extrapolation of two step sizes to 0; c = 2 is caught."""
    bandit, rate, steps = modes((1.0, 0.0), (2, 6)), 0.04, 1000
    limit = 2 * curve(bandit, rate / 2, 2 * steps)[::2] - curve(bandit, rate, steps)
    time = rate * np.arange(steps + 1)

    def law(c):
        return sinh_law(jnp.asarray(time * c / 2), -np.log(3.0))

    assert np.max(np.abs(limit - law(1 / 2 + 1 / 6))) < 1e-4
    assert np.max(np.abs(limit - law(2.0))) > 0.1


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"sizes": (1, 2)}, "bandit.sizes"),
        ({"sizes": (1, 2, 0, 1)}, "bandit.sizes[2]"),
        ({"spread": -1.0}, "bandit.spread"),
        ({"rewards": (0.5,), "sizes": (1,)}, "bandit.rewards"),
    ],
)
def test_bad_arguments_are_named(options, name):
    with pytest.raises(ValueError, match=re.escape(name)):
        modes(**options)
