"""Sampled runs in their default precision against double precision, for every optimiser, in small groups."""

import numpy as np
import pytest

import bandit_lab as bl
from bandit_lab.grpo.optimizer import Optimizer, optimizer_names

SEEDS, LIMIT = 40_000, 5.0
SETTING = {
    "bandit": {"name": "k_arm", "rewards": [0.2, 0.5, 0.9, 0.4, 0.1, 0.6, 0.3]},
    "group_size": 3,
    "momentum": 0.9,
    "learning_rate": 0.05,
    "steps": 2,
    "seeds": SEEDS,
    "seed": 5,
}
SHORT = ("adam",)


def mean_reward(**asked):
    """(mean, its standard error) of the expected reward after two updates."""
    runs = bl.simulate(**SETTING, **asked)
    return float(runs.reward_mean[-1]), float(np.sqrt(runs.reward_variance[-1] / SEEDS))


def z_of(one, other):
    return (one[0] - other[0]) / np.hypot(one[1], other[1])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.nightly) for name in optimizer_names()]
)
def test_the_default_precision_has_the_mean_of_double_precision(name):
    """Seven arms, groups of three: most arms are not drawn, many groups are silent. |z| <= 5: 6e-7 a case."""
    assert abs(z_of(mean_reward(optimizer=name), mean_reward(optimizer=name, precision="float64"))) <= LIMIT


def test_single_precision_of_an_optimiser_that_divides_would_be_seen():
    """Where the gradient is exactly 0, float32 leaves 1e-9, and Adam divides it by itself."""
    assert Optimizer("adam").divides
    assert z_of(mean_reward(optimizer="adam", precision="float32"), mean_reward(optimizer="adam")) > LIMIT
