"""Arms in modes: the arms of a mode, the time scale that many arms make, and the limit of one arm per mode."""

import jax.numpy as jnp
import numpy as np

from bandit_lab import simulation
from bandit_lab.bandits.modes import modes
from bandit_lab.grpo import Hyper, Learner
from experiments.shared.theory.two_arm import sinh_law


def curve(bandit, rate, steps):
    cell = Hyper(*(np.array([x]) for x in (rate, 0.0, 1, 0.0)))
    return simulation.run(Learner(bandit), "mean_field", cell, steps=steps, dtype=np.float64).reward_mean[0]


def test_equal_arms_within_modes_are_two_arms_with_another_time_scale():
    """c = 1/n_1 + 1/n_0 in place of 2, checked on the extrapolation of two step sizes to 0; c = 2 is caught."""
    bandit, rate, steps = modes((1.0, 0.0), (2, 6)), 0.04, 1000
    limit = 2 * curve(bandit, rate / 2, 2 * steps)[::2] - curve(bandit, rate, steps)
    time = rate * np.arange(steps + 1)

    def law(c):
        return sinh_law(jnp.asarray(time * c / 2), -np.log(3.0))

    assert np.max(np.abs(limit - law(1 / 2 + 1 / 6))) < 1e-4
    assert np.max(np.abs(limit - law(2.0))) > 0.1
