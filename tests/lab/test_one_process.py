"""One on-policy process under many names: what is printed of it must not depend on how it was asked for."""

import numpy as np
import pytest
from settings import learner

import bandit_lab as bl
from bandit_lab.grpo import ESTIMATORS
from bandit_lab.lab.predict.fixed_point import weighs

BANDIT = {"name": "k_arm", "rewards": [0.9, 0.5, 0.1], "reference_logits": [0.0, 0.3, -0.2]}
RATE = 0.01
ON_POLICY = {"refresh": {"refresh_interval": 1}, "lag": {"refresh_interval": 0}, "ages": {"refresh_interval": 1}}
SAME = [name for name in ESTIMATORS if weighs(learner(estimator=ESTIMATORS[name]())) is None]
"""Estimators that weigh every action by 1 on policy: there they are one process."""


def printed(momentum=0.9, rate=RATE, **asked):
    """The numbers of a prediction that belong to the process, and its verdict."""
    prediction = bl.predict(
        bandit=BANDIT, dynamics="mean_field", momentum=momentum, learning_rate=rate, **asked
    ).to_dict()
    rates = prediction["thresholds"]["learning_rate"]
    numbers = [
        *prediction["fixed_point"]["policy"],
        *prediction["stiffness_spectrum"],
        rates["exact"],
        rates["oscillation_onset"],
        prediction["spectral_radius"],
    ]
    return np.array(numbers), prediction["regime"], prediction["bifurcation"]


@pytest.fixture(scope="module")
def reference():
    return printed(estimator="frozen")


def assert_same(prediction, reference):
    np.testing.assert_allclose(prediction[0], reference[0], rtol=1e-9)
    assert prediction[1:] == reference[1:]


@pytest.mark.parametrize("estimator", [name for name in SAME if name != "frozen"])
def test_estimators(estimator, reference):
    """N = 1: all ratios are 1. Planted: the onset of the softest mode is 2.7 times that of the stiffest here."""
    assert_same(printed(estimator=estimator, refresh_interval=1), reference)


@pytest.mark.parametrize("model", ON_POLICY)
@pytest.mark.parametrize("estimator", ["frozen", "ratio"])
def test_staleness_models(model, estimator, reference):
    """N = 1, lag 0 and age 0 alone: nothing is stale."""
    rule = {"name": model} | ({"weights": [1.0]} if model == "ages" else {})
    assert_same(printed(staleness=rule, estimator=estimator, **ON_POLICY[model]), reference)


def test_the_onset_is_that_of_the_stiffest_mode_by_hand(reference):
    """z^2 - (1 + mu - eta K) z + mu has a double root where eta K = (1 - sqrt mu)^2, at the largest K first."""
    numbers = reference[0]
    stiffness = numbers[3:5]
    assert numbers[-2] == pytest.approx((1 - np.sqrt(0.9)) ** 2 / stiffness.max(), rel=1e-9)
    assert stiffness.max() / stiffness.min() > 2
