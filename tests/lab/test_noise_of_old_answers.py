"""The formula that the experiment `stabilisers` predicts from, against exact moments of finite groups."""

import jax.numpy as jnp
import numpy as np
import pytest

import experiments.shared.estimators  # noqa: F401 - registers `decoupled`, which the package has not
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ESTIMATORS, Learner
from bandit_lab.lab.reproduce.experiment import read_setting
from bandit_lab.simulation.finite_group import group_moments
from experiments.shared import update_noise

SETTING = read_setting("stabilisers", "paper")
SIZE = 256


def exact(rule, gap, old):
    """G times the variance of the gap's update in groups of 256."""
    learner = Learner(two_arm(SETTING.rewards), estimator=ESTIMATORS[rule](), group_size=SIZE)
    theta, acting = (jnp.array([x / 2, -x / 2]) for x in (gap, old))
    along = np.array([1.0, -1.0])
    return SIZE * along @ np.asarray(group_moments(learner)(jnp.array(1.0), theta, acting).covariance) @ along


@pytest.mark.parametrize("rule", list(update_noise.WEIGHTS))
def test_the_variance_of_an_update_from_old_answers_is_that_of_finite_groups(rule):
    """Leading in 1/G: within 5/G. Planted: the variance of answers without a weight is another one."""
    for gap, old in ((2.0, 2.0), (2.6, 1.7), (1.2, 2.1)):
        variance = float(update_noise.variance_of_update(SETTING, rule, np.array(gap), np.array(old)))
        assert variance == pytest.approx(exact(rule, gap, old), rel=5 / SIZE)
    plain = update_noise.variance_of_update(SETTING, "uncorrected", np.array(1.2), np.array(2.1))
    assert float(plain) != pytest.approx(exact("ratio", 1.2, 2.1), rel=20 / SIZE)


def test_the_closure_is_the_plain_fluctuation_where_policies_are_close():
    """Small steps, any age: noise at the fixed point times the linear response; none beyond the mean threshold."""
    point = update_noise.near(SETTING, "ratio")
    noise = (
        float(update_noise.variance_of_update(SETTING, "ratio", *np.array([[point.gap]] * 2))[0]) / SETTING.group_size
    )
    for age in (0, 4):
        variance, share = update_noise.closure(SETTING, "ratio", point, 0.01, age)
        assert variance == pytest.approx(update_noise.response(point, 0.01, age)[0] * noise, rel=0.01)
        assert share == pytest.approx(1, abs=1e-3)
    assert np.isnan(update_noise.closure(SETTING, "ratio", point, 6.0, 4)[0])
