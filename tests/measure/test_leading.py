"""Leading stiffnesses and multipliers without a matrix, against dense matrices and against the tangent kernel."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from bandit_lab.bandits import k_arm
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.measure.fixed_point import find_fixed_point
from bandit_lab.measure.floquet import floquet
from bandit_lab.simulation import drift_of
from experiments.shared.measure.leading import (
    largest,
    leading_multipliers,
    leading_stiffness,
    stiffness_along,
    tangent_kernel_stiffness,
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
        found = leading_stiffness(learner, "mean_field", KL, np.asarray(theta), count=2, part=part)
        assert found.converged
        np.testing.assert_allclose(found.values, top(matrix, 2), atol=1e-9)
        assert np.max(found.residuals) < 1e-7
        images = matrix @ found.vectors
        np.testing.assert_allclose(images, found.vectors * found.values, atol=1e-7)


def test_a_preconditioner_stands_on_both_sides(bandit):
    """Against the dense D^{1/2} A D^{1/2}, whose eigenvalues are those of D A; without it they are others."""
    learner, size = Learner(bandit), len(bandit.initial_parameters)
    theta = bandit.initial_parameters + 0.3 * jax.random.normal(jax.random.key(5), (size,))
    matrix, divided = sum(dense(learner, theta)), np.geomspace(0.5, 8, size)
    about = learner, "mean_field", KL
    found = leading_stiffness(*about, np.asarray(theta), count=2, preconditioner=divided)
    np.testing.assert_allclose(found.values, top(divided[:, None] * matrix, 2), rtol=1e-8)
    root = np.sqrt(divided)
    np.testing.assert_allclose((root[:, None] * matrix * root) @ found.vectors, found.vectors * found.values, atol=1e-7)
    along = stiffness_along(*about, np.stack([theta, theta]), preconditioners=np.stack([np.ones(size), divided]))
    np.testing.assert_allclose(along, [top(matrix, 1)[0], found.values[0]], rtol=1e-6)
    assert abs(along[1] / along[0] - 1) > 0.1
    with pytest.raises(ValueError, match="preconditioner: expected positive numbers"):
        leading_stiffness(*about, np.asarray(theta), preconditioner=0 * divided)


def test_the_tangent_kernel_gives_the_same_stiffnesses_at_a_fixed_point():
    learner = Learner(sequence(2, 3))
    point = find_fixed_point(learner, "mean_field", KL)
    kernel = tangent_kernel_stiffness(learner, "mean_field", KL, point.rest)
    direct = leading_stiffness(learner, "mean_field", KL, point.rest, count=4)
    np.testing.assert_allclose(kernel[:4], direct.values, rtol=1e-6)
    elsewhere = tangent_kernel_stiffness(learner, "mean_field", KL, point.rest + 0.3)  # softmax: the same policy
    np.testing.assert_allclose(elsewhere[:4], kernel[:4], rtol=1e-6)


@pytest.mark.parametrize(("model", "momentum"), [("refresh", 0.5), ("lag", 0.0), ("pipeline", 0.5)])
def test_multipliers_are_those_of_the_dense_period_map(model, momentum):
    learner = Learner(k_arm([0.9, 0.5, 0.3, 0.1]), staleness=STALENESS[model]())
    hyper = Hyper(20.0, momentum, 3, KL)  # unstable: the stiffest mode leads
    exact = floquet(learner, "mean_field", hyper)
    point = find_fixed_point(learner, "mean_field", KL)
    found = leading_multipliers(learner, "mean_field", hyper, point.rest, count=2)
    largest_two = np.sort(np.abs(exact.multipliers))[::-1][:2]
    np.testing.assert_allclose(np.abs(found.values), largest_two, rtol=1e-7)
    other = leading_multipliers(replace(learner, staleness=STALENESS["refresh"]()), "mean_field",
                                hyper._replace(refresh_interval=1), point.rest, count=2)  # fmt: skip
    assert np.max(np.abs(np.abs(other.values) - largest_two)) > 1e-4


def test_what_is_not_symmetric_has_complex_values():
    turn = np.kron(np.diag([3.0, 2.0, 1.0]), np.array([[1.0, -2.0], [2.0, 1.0]]))
    found = largest(lambda v: turn @ v, 6, 2, "real", 1e-10, None)
    np.testing.assert_allclose(found.values, [3 + 6j, 3 - 6j], rtol=1e-8)
