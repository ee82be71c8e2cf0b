"""Leading stiffnesses and multipliers without a matrix, against dense matrices."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from bandit_lab.bandits import k_arm
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.measure.fixed_point import find_fixed_point
from bandit_lab.measure.period_jacobian import floquet
from bandit_lab.simulation import drift_of
from experiments.shared.measure.leading import (
    leading_multipliers,
    leading_stiffness,
)

KL = 0.3


def dense(learner, theta):
    """-dF/dtheta, -dF/dtheta_old [D, D]."""
    fresh, stale = jax.jacfwd(drift_of(learner, "mean_field"), argnums=(0, 1))(theta, theta, KL)
    return -np.asarray(fresh), -np.asarray(stale)


def top(matrix, count):
    values = np.linalg.eigvals(matrix)
    return values[np.argsort(-values.real)][:count]


@pytest.fixture(scope="module", params=["sequence", "neural"])
def bandit(request):
    if request.param == "sequence":
        return sequence(2, 3)
    pytest.importorskip("equinox", reason="the extra 'neural' is not installed")
    from bandit_lab.bandits.neural import neural

    return neural(width=3)


@pytest.mark.parametrize("estimator", ["frozen", "ratio"])
def test_parts_agree_with_the_dense_matrices_away_from_any_fixed_point(bandit, estimator):
    learner = Learner(bandit, estimator=ESTIMATORS[estimator]())
    theta = bandit.initial_parameters + 0.3 * jax.random.normal(jax.random.key(0), bandit.initial_parameters.shape)
    fresh, stale = dense(learner, theta)
    for part, matrix in (("both", fresh + stale), ("fresh", fresh), ("stale", stale)):
        leading = leading_stiffness(learner, "mean_field", KL, np.asarray(theta), count=2, part=part)
        assert leading.converged
        np.testing.assert_allclose(leading.values, top(matrix, 2), atol=1e-9)
        assert np.max(leading.residuals) < 1e-7
        images = matrix @ leading.vectors
        np.testing.assert_allclose(images, leading.vectors * leading.values, atol=1e-7)


@pytest.mark.parametrize(("model", "momentum"), [("refresh", 0.5), ("lag", 0.0), ("pipeline", 0.5)])
def test_multipliers_are_those_of_the_dense_period_map(model, momentum):
    learner = Learner(k_arm([0.9, 0.5, 0.3, 0.1]), staleness=STALENESS[model]())
    hyper = Hyper(20.0, momentum, 3, KL)  # unstable: the stiffest mode leads
    exact = floquet(learner, "mean_field", hyper)
    point = find_fixed_point(learner, "mean_field", KL)
    leading = leading_multipliers(learner, "mean_field", hyper, point.rest, count=2)
    largest_two = np.sort(np.abs(exact.multipliers))[::-1][:2]
    np.testing.assert_allclose(np.abs(leading.values), largest_two, rtol=1e-7)
    other = leading_multipliers(replace(learner, staleness=STALENESS["refresh"]()), "mean_field",
                                hyper._replace(refresh_interval=1), point.rest, count=2)  # fmt: skip
    assert np.max(np.abs(np.abs(other.values) - largest_two)) > 1e-4
