"""Late-time laws of simulated curves without KL, and the curvature along a prompt's gradient."""

import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.simulation import trajectories
from experiments.shared.measure.curvature import curvature_along_gradients
from experiments.shared.measure.late_time import late_exponent, late_rate

ARMS = two_arm((0.0, -1.0), kind="fixed")  # J = -(1 - p): the deficit keeps its digits


def deficit(trained, dynamics, steps, learning_rate):
    """1 - p at steps 0..T of the exact dynamics without KL."""
    grid = cells(learning_rate, kl_weight=0.0)
    return -trajectories(trained, dynamics, grid, steps=steps, dtype=np.float64)[0, 0]


@pytest.mark.parametrize(
    ("advantage", "rate", "steps", "exponent"), [("dr_grpo", 1.0, 20_000, -1), ("grpo", 0.5, 10_000, -2)]
)
def test_infinite_groups_approach_the_vertex_by_a_power_of_time(advantage, rate, steps, exponent):
    """Mean-only 1/(2 eta t), both logits being trained; standardised 4/(2 eta t)^2: exponents to 0.02, amplitudes to
    0.2 %."""
    curve = deficit(learner(advantage, ARMS), "mean_field", steps, rate)
    assert float(late_exponent(curve)) == pytest.approx(exponent, abs=0.02)
    assert curve[-1] * (2 * rate * steps) ** -exponent / exponent**2 == pytest.approx(1, abs=2e-3)


def test_dropping_silent_groups_makes_it_exponential():
    """Rate 2 eta sqrt(G - 1)/G per update, 1e-6; the curve of the same groups kept is a power."""
    for size in (2, 8):
        curve = deficit(learner("dapo", ARMS, group_size=size), "finite_group", 400, 0.5)
        assert float(late_rate(curve)) == pytest.approx(np.sqrt(size - 1) / size, rel=1e-6)
        assert curve[-1] < 1e-25


def test_curvature_along_each_prompts_own_gradient():
    """Against second differences of every prompt's success along its own unit gradient, four prompts."""
    bandit = contextual(4, 3, overlap=0.4, seed=5)
    theta = np.random.default_rng(1).normal(size=bandit.initial_parameters.shape)
    success, second, bound = curvature_along_gradients(bandit, theta)

    def value(prompt, x):
        policy = np.exp(np.asarray(bandit.log_policy(jnp.asarray(x))))
        return np.sum(policy * np.asarray(bandit.law.means), axis=-1)[prompt]

    for prompt in range(4):
        slope = np.array([value(prompt, theta + h) - value(prompt, theta - h) for h in 1e-5 * np.eye(len(theta))])
        step = 1e-3 * slope / np.linalg.norm(slope)
        bend = (value(prompt, theta + step) - 2 * value(prompt, theta) + value(prompt, theta - step)) / 1e-6
        assert success[prompt] == pytest.approx(value(prompt, theta), rel=1e-12)
        assert second[prompt] == pytest.approx(bend, rel=1e-3, abs=1e-6)
        assert abs(second[prompt]) <= bound[prompt]
