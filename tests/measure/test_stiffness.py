"""Fixed point and stiffness by every route: simulation's three, and the theory's closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import STUDY_SETTINGS, learner, thinned

from bandit_lab import theory
from bandit_lab.bandits import BANDITS, k_arm, two_arm
from bandit_lab.grpo import ESTIMATORS
from bandit_lab.measure import critical_kl_weight, find_fixed_point, measure_stiffness
from bandit_lab.measure.stiffness import potential, spectrum
from bandit_lab.simulation import drift_of
from bandit_lab.theory import (
    BinarySignal,
    GroupLaw,
    attracting_fixed_point,
    critical_kl_weight as predicted_critical,
    stiffness_split,
)

pytestmark = pytest.mark.usefixtures("compiled_quickly")

CASES = thinned(STUDY_SETTINGS, ("mean_field", "finite_group"))


def prediction(advantage, bandit, dynamics, size, estimator="frozen", kl_weight=1.0):
    signal = BinarySignal(
        GroupLaw(advantage, None if dynamics == "mean_field" else size), tuple(np.asarray(bandit.law.means[0]))
    )
    point = attracting_fixed_point(signal, np.exp(np.asarray(bandit.reference_log_policy[0])), kl_weight)
    return point, stiffness_split(signal, point.policy, kl_weight, estimator)


@pytest.mark.parametrize(("name", "dynamics"), CASES)
def test_hessian_closed_form_and_relaxation_agree(name, dynamics):
    """Declared: 1e-10 relative between Hessian, Jacobian and closed form; 1e-4 for the relaxation spectrum."""
    advantage, bandit = STUDY_SETTINGS[name]
    trained = learner(advantage, bandit, group_size=12)
    point = find_fixed_point(trained, dynamics, 1.0)
    report = measure_stiffness(trained, dynamics, 1.0, point)
    predicted, split = prediction(advantage, bandit, dynamics, 12)
    np.testing.assert_allclose(point.policy[0], predicted.policy, rtol=1e-10)
    closed_form = split.spectrum()
    np.testing.assert_allclose(report.hessian, closed_form, rtol=1e-10)
    np.testing.assert_allclose(report.jacobian, closed_form, rtol=1e-10)
    np.testing.assert_allclose(report.relaxation, closed_form, rtol=1e-4)
    # The planted defect: the other drift's stiffness (G = 12 against infinity) is further away than any tolerance.
    other = prediction(advantage, bandit, "mean_field" if dynamics != "mean_field" else "finite_group", 12)[1]
    assert np.max(np.abs(report.hessian / other.spectrum() - 1)) > 1e-3


@pytest.mark.parametrize(
    ("estimator", "dynamics"),
    thinned(list(theory.ESTIMATORS), ["mean_field", "finite_group"]),
)
def test_fresh_and_stale_parts_agree_with_their_closed_forms(estimator, dynamics):
    advantage, bandit = STUDY_SETTINGS["five_arms"]
    trained = learner(advantage, bandit, group_size=12, estimator=ESTIMATORS[estimator]())
    point = find_fixed_point(trained, dynamics, 1.0)
    report = measure_stiffness(trained, dynamics, 1.0, point)
    split = prediction(advantage, bandit, dynamics, 12, estimator)[1]
    basis = point.basis
    np.testing.assert_allclose(report.fresh, basis.T @ split.fresh @ basis, atol=1e-10)
    np.testing.assert_allclose(report.stale, basis.T @ split.stale @ basis, atol=1e-10)


@pytest.mark.parametrize(
    ("rewards", "reference", "kl_weight"),
    [
        ((1.0, 0.0), (0.0, 0.0), 0.04),
        ((0.9, 0.5, 0.1), (0.0, 0.0, -20.0), 1.0),
        ((0.9, 0.5, 0.1), (0.0, 0.0, -28.0), 1.0),
    ],
)
def test_arms_that_are_next_to_impossible_still_have_a_place(rewards, reference, kl_weight):
    """The tilted reference, an arm of probability 1e-9 to 1e-13 included, to 1e-6 of each probability.

    Its drift is as small as its probability: it needs 1/p steps, and the rounding errors of the other arms are larger.
    """
    trained = learner("dr_grpo", k_arm(rewards, reference, kind="fixed"))
    point = find_fixed_point(trained, "mean_field", kl_weight)
    weight = np.exp(np.array(reference) + np.array(rewards) / kl_weight)
    assert point.exists
    np.testing.assert_allclose(point.policy[0], weight / weight.sum(), rtol=1e-6)


@pytest.mark.parametrize("estimator", ["clipped", "cispo", "frozen"])
def test_of_sequences_the_gradient_of_the_potential_is_the_mean_update(estimator):
    """Estimators of tokens weigh every answer by 1 over its length. Planted: they weigh it by 1."""
    subject = learner("grpo", BANDITS.build("sequence", {}), estimator=ESTIMATORS[estimator]())
    theta = subject.bandit.initial_parameters + 0.1 * jnp.cos(jnp.arange(subject.bandit.initial_parameters.size))
    value, drift = potential(subject, "mean_field", theta), drift_of(subject, "mean_field")
    expected = drift(theta, theta, jnp.asarray(0.3))
    np.testing.assert_allclose(jax.grad(value)(theta, jnp.asarray(0.3)), expected, rtol=0, atol=1e-9)


def test_std_over_several_reward_values_has_no_potential_and_says_so():
    trained = learner("grpo", k_arm((0.9, 0.5, 0.3, 0.1), kind="fixed"), group_size=4)
    point = find_fixed_point(trained, "mean_field", 2.0)
    report = measure_stiffness(trained, "mean_field", 2.0, point)
    assert report.hessian is None
    assert "not a gradient" in report.hessian_reason
    np.testing.assert_allclose(report.relaxation, report.jacobian, rtol=1e-4)
    asymmetry = report.fresh + report.stale - (report.fresh + report.stale).T
    assert np.max(np.abs(asymmetry)) > 1e-4


def test_no_interior_fixed_point_is_said_with_the_critical_kl_weight():
    trained = learner("grpo", two_arm((1.0, 0.0)))
    point = find_fixed_point(trained, "mean_field", 1.0)
    assert not point.exists
    assert "no interior fixed point" in point.reason
    measured = critical_kl_weight(trained, "mean_field", 1.0)
    predicted = predicted_critical(BinarySignal(GroupLaw("grpo"), (1.0, 0.0)), np.array([0.5, 0.5]))
    assert measured == pytest.approx(predicted, rel=2e-4)
    assert predicted == pytest.approx(1.5089, abs=1e-4)
    with pytest.raises(ValueError, match="fixed point: expected one that exists"):
        measure_stiffness(trained, "mean_field", 1.0, point)


def test_a_spectrum_is_real_up_to_rounding_and_complex_beyond():
    """A rotation of relative size 1e-11 is rounding, 1e-6 is none. Largest real part first."""
    for turn, kind in ((1e-11, "f"), (1e-6, "c")):
        values = spectrum(np.array([[1.0, 0.0, 0.0], [0.0, 2.0, -2 * turn], [0.0, 2 * turn, 2.0]]))
        assert values.dtype.kind == kind
        np.testing.assert_allclose(values.real, [2.0, 2.0, 1.0], rtol=1e-9)
