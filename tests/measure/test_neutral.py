"""Policies with neutral directions that turn with the parameters: measured against closed forms."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells
from turning import build_escort, build_product

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, Learner, Optimizer
from bandit_lab.measure import (
    find_fixed_point,
    floquet,
    floquet_threshold,
    generic_direction,
    growth_rate,
    learning_rate_boundary,
    learning_rate_onset,
    measure_stiffness,
    stack_bandits,
    stiffest_mode,
)
from bandit_lab.measure.directions import changing_part, scores_at
from bandit_lab.measure.fixed_point import _jacobian, _value
from bandit_lab.measure.growth import _Growth
from bandit_lab.theory import exact, oscillation_onset
from experiments.shared.measure.adaptive import noisy_state

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SETTINGS = [(1, 0.0), (1, 0.9), (2, 0.0), (4, 0.9)]
GRID = np.geomspace(1e-4, 10, 21)


def softmax() -> tuple[float, float]:
    """(stiffness, p (1 - p)) of the two-arm softmax with the same rewards; a logit gap x has half that stiffness."""
    learner = Learner(two_arm())
    point = find_fixed_point(learner, "mean_field", 1.0)
    return measure_stiffness(learner, "mean_field", 1.0, point).largest, float(np.prod(point.policy))


@pytest.mark.parametrize("length", [1.0, 2.0])
def test_the_escort_policys_thresholds_are_those_of_its_direction_alone(length):
    """x = 2 ln(theta_1/theta_2), |grad x|^2 = 4/(|theta|^2 p q), and the flow keeps |theta|: K = 2 K_softmax/(p q)."""
    learner = Learner(build_escort(length=length))
    point = find_fixed_point(learner, "mean_field", 1.0)
    assert np.linalg.norm(point.theta) == pytest.approx(length, rel=1e-8)
    gap, pq = softmax()
    stiffness = 2 * gap / pq / length**2
    report = measure_stiffness(learner, "mean_field", 1.0, point)
    np.testing.assert_allclose(report.jacobian, [stiffness], rtol=1e-7)
    np.testing.assert_allclose(report.hessian, [stiffness], rtol=1e-7)
    np.testing.assert_allclose(report.relaxation, [stiffness], rtol=1e-6)
    grid = cells(1.0, [mu for _, mu in SETTINGS], [n for n, _ in SETTINGS])
    theta, along = np.tile(point.theta, (len(SETTINGS), 1)), generic_direction(point.basis)
    predicted = np.array([exact("refresh", n, mu).kappa for n, mu in SETTINGS]) / stiffness
    boundary = learning_rate_boundary(learner, "mean_field", grid, theta, along, GRID)
    np.testing.assert_allclose(boundary.value, predicted, rtol=1e-3)
    mode = stiffest_mode(report.relaxation_matrix, point.basis)
    onset = learning_rate_onset(learner, "mean_field", grid, theta, *mode, GRID).value
    np.testing.assert_allclose(
        onset, [oscillation_onset("refresh", n, mu) / stiffness for n, mu in SETTINGS], rtol=1e-3
    )
    for (n, mu), rate in zip(SETTINGS[2:], predicted[2:], strict=True):
        assert floquet_threshold(learner, "mean_field", mu, n, 1.0).learning_rate == pytest.approx(rate, rel=1e-7)


def test_an_escort_policy_of_three_arms_has_two_multipliers_and_no_neutral_one():
    learner = Learner(build_escort((0.9, 0.5, 0.1), 1.5))
    point = find_fixed_point(learner, "mean_field", 1.0)
    assert np.linalg.norm(point.theta) == pytest.approx(1.5, rel=1e-8)
    np.testing.assert_allclose(point.basis.T @ point.theta, 0, atol=1e-12)
    report = measure_stiffness(learner, "mean_field", 1.0, point)
    linearised = floquet(learner, "mean_field", Hyper(0.1, 0.0, 1, 1.0))
    steady = linearised.multipliers[np.abs(linearised.multipliers) > 1e-12]  # the snapshot's own multipliers vanish
    np.testing.assert_allclose(np.sort(steady.real), np.sort(1 - 0.1 * report.jacobian), rtol=1e-9)


def scores(learner: Learner, theta: np.ndarray) -> np.ndarray:
    """d log pi / d theta [K, D] as measured: compared before what is made of it, so that a wrong number has a place."""
    return np.asarray(scores_at(learner.bandit, jnp.asarray(theta)))[0]


def test_a_product_of_two_parameters_rests_where_the_flow_leads():
    """The flow keeps u^2 - v^2; at a gap u v = x of stiffness K/2 it is K (u^2 + v^2)/2."""
    learner = Learner(build_product())
    u, v = start = np.array([1.0, 0.5])
    p = 1 / (1 + np.exp(-u * v))
    np.testing.assert_allclose(scores(learner, start), np.outer([1 - p, -p], [v, u]), rtol=1e-12)
    drift, derivative = (
        np.asarray(f(learner, "mean_field", jnp.asarray(start), jnp.asarray(1.0))) for f in (_value, _jacobian)
    )
    assert drift[0] / drift[1] == pytest.approx(v / u, rel=1e-12)
    assert derivative[0, 1] == pytest.approx(derivative[1, 0], rel=1e-12)
    point = find_fixed_point(learner, "mean_field", 1.0)
    u, v = point.theta
    assert point.neutral_turns
    assert u**2 - v**2 == pytest.approx(0.75, rel=1e-7)
    jacobian = measure_stiffness(learner, "mean_field", 1.0, point).jacobian
    np.testing.assert_allclose(jacobian, [softmax()[0] / 2 * (u**2 + v**2)], rtol=1e-7)


def test_only_the_part_of_a_displacement_that_changes_the_policy_is_measured():
    """Planted: a neutral part as large as the rest, of a softmax and of an escort policy, alone and many at once."""
    for bandit in (two_arm(), build_escort()):
        learner = Learner(bandit)
        point = find_fixed_point(learner, "mean_field", 1.0)
        along = generic_direction(point.basis)
        neutral = np.linalg.svd(point.basis)[0][:, -1]
        theta = np.tile(point.theta, (2, 1))
        grid = cells([0.01, 0.02])
        clean = growth_rate(learner, "mean_field", grid, theta, along, 20)
        mixed = growth_rate(learner, "mean_field", grid, theta, along + neutral, 20)
        assert np.all(clean < -1e-4)
        np.testing.assert_allclose(mixed, clean, rtol=1e-6)
        many = stack_bandits([bandit, bandit])
        parts = [replace(learner, bandit=jax.tree.map(lambda x, i=i: x[i], many)) for i in range(2)]
        np.testing.assert_allclose([scores(one, point.theta) for one in parts], [scores(learner, point.theta)] * 2)
        for among in (None, many):  # before any run: a wrong direction and a wrong run are told apart
            changing, space = changing_part(learner, theta, np.tile(along + neutral, (2, 1)), among)
            np.testing.assert_allclose(changing, np.tile(along, (2, 1)), atol=1e-12)
            assert space is None or np.allclose(space, np.outer(along, along), atol=1e-12)
        np.testing.assert_allclose(
            growth_rate(learner, "mean_field", grid, theta, along + neutral, 20, many), clean, rtol=1e-6
        )
        with pytest.raises(ValueError, match="direction: expected one that changes the policy"):
            growth_rate(learner, "mean_field", grid, theta, neutral, 20)


@pytest.mark.parametrize("offset", [1e-10, -1e-10, 1e-9])
@pytest.mark.parametrize("root", [np.exp(-0.027), -np.exp(-0.027)])
def test_a_fixed_point_that_is_a_little_off_is_not_read_as_a_cycle(root, offset):
    """A fixed point is accepted at 1e-9 logits. Read as a cycle, the displacement has half of its rate."""
    j = np.arange(128)
    displacement = 1e-7 * root**j + offset
    watch, first = _Growth(np.array([40]), np.array([1])), np.zeros(1, int)
    watch(first, first, displacement[None], displacement[None] ** 2)
    assert watch.rates()[0] == pytest.approx(-0.027, rel=50 * abs(offset) / 1e-7)


def test_a_cycle_is_read_as_one_beside_such_an_offset():
    j = np.arange(1280)
    displacement = 1e-7 * np.exp(-1e-3 * j) * np.cos(0.05 * j)
    for offset in (0.0, 1e-10):
        watch = _Growth(np.array([1200]), np.array([1]))
        for start in range(0, 1280, 128):
            part = displacement[None, start : start + 128] + offset
            watch(np.zeros(1, int), np.array([start]), part, part**2 + 1e-16 * np.exp(-2e-3 * j[start : start + 128]))
        assert watch.turns[0] > 2
        assert watch.rates()[0] == pytest.approx(-1e-3, rel=1e-2)


def test_a_policy_that_runs_to_a_vertex_or_does_not_move_has_a_reason_and_no_number():
    learner = Learner(build_escort())
    assert "runs to a vertex" in find_fixed_point(learner, "mean_field", 0.0).reason
    still = find_fixed_point(Learner(build_product(0.0, 0.0)), "mean_field", 1.0)
    assert still.theta is None
    assert "does not change with its parameters" in still.reason


def test_where_neutral_motion_never_rests_there_is_a_reason_and_no_number():
    """Weight decay shrinks the neutral length and so stiffens the policy for ever; of a softmax it moves nothing."""
    decayed = Optimizer("adamw", (("weight_decay", 0.1),))
    learner = Learner(build_escort(), optimizer=decayed, group_size=4)
    linearised = floquet(learner, "finite_group", Hyper(0.01, 0.0, 1, 1.0))
    assert linearised.reason.endswith("the mean update has no fixed point")
    plain = replace(learner, optimizer=Optimizer("adam"))
    assert "there is no stationary state" in noisy_state(plain, "finite_group", Hyper(0.01, 0.0, 1, 1.0)).reason


def test_a_displacement_that_stands_still_grows_at_rate_zero_without_a_warning():
    watch = _Growth(np.array([128]), np.array([1]))
    steps, ones = np.zeros(1, int), np.ones((1, 128))
    assert watch(steps, steps, 1e-7 * ones, 1e-14 * ones).all()
    assert watch.rates()[0] == pytest.approx(0.0, abs=1e-12)
