"""Gradient alignment control: where gradients are held back, and what becomes of training on a line."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, Optimizer
from bandit_lab.measure import find_fixed_point
from bandit_lab.measure.block import make_block
from bandit_lab.simulation import run

RULE = Optimizer("gac", (("low", 0.5), ("high", 0.9)))


def held(cosine):
    """The change that follows a gradient of length 2 at this cosine with the one before, of length 3."""
    rule = RULE.build(jnp.asarray(1.0), jnp.asarray(0.0))
    before, gradient = np.array([3.0, 0.0]), 2 * np.array([cosine, np.sqrt(1 - cosine**2)])
    state = rule.init(jnp.zeros(2))
    _, state = rule.update(jnp.asarray(before), state)
    return gradient, -np.asarray(rule.update(jnp.asarray(gradient), state)[0])


@pytest.mark.parametrize("cosine", [-1.0, -0.4, 0.0, 0.49, 0.51, 0.7, 0.89, 0.91, 1.0])
def test_what_is_along_the_gradient_before_is_held_back(cosine):
    """To 1e-12: as it came up to `low`, then with the same part across and the cosine `low`, left out beyond `high`."""
    gradient, found = held(cosine)
    across = gradient[1]
    expected = gradient if cosine <= 0.5 else np.array([across / np.sqrt(3), across]) if cosine <= 0.9 else 0 * gradient
    np.testing.assert_allclose(found, expected, atol=1e-12)


def reached(optimizer, bandit):
    trained = learner("dr_grpo", bandit, optimizer=optimizer)
    found = run(trained, "mean_field", cells(0.5, 0.0, 1, 0.3), steps=400, dtype=np.float64, path="fast")
    return found.reward_mean[0]


def test_on_a_line_training_stands_still():
    """Two arms: the mean update moves once, all later gradients are along the first. Without, it moves on."""
    rewards = reached(RULE, two_arm((0.9, 0.2)))
    assert rewards[1] > rewards[0]
    np.testing.assert_allclose(rewards[1:], rewards[1], rtol=1e-12)
    assert reached(Optimizer(), two_arm((0.9, 0.2)))[-1] > rewards[-1] + 0.1


@pytest.mark.parametrize("bandit", [None, two_arm((0.9, 0.2))], ids=["three arms", "two arms"])
def test_there_is_no_derivative_at_a_fixed_point(bandit):
    """Else a threshold would be printed, that of plain gradients, which this update does not have."""
    trained = learner("dr_grpo", bandit, optimizer=RULE)
    point = find_fixed_point(trained, "mean_field", 1.0)
    hyper = Hyper(0.1, 0.0, 1, 1.0)
    block, reason = make_block(trained, "mean_field", hyper, point=point)
    assert block is None
    assert reason == "the mean update is not differentiable at its fixed point"


@pytest.mark.parametrize("options", [{"low": 2}, {"low": 0.5, "high": 0.4}, {"low": 1.0, "high": 1.0}])
def test_bad_options_are_one_line(options):
    full = {"low": 0.3, "high": 0.9} | options
    said = f"optimizer.options: expected 0 <= low <= high <= 1 and low < 1, got {full}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Optimizer("gac", tuple(options.items()))
