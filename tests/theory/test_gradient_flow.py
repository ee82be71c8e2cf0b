"""The flow of the mean update: its drift off policy, the parts of its stiffness, its order."""

import jax
import numpy as np
import pytest

from bandit_lab.bandits.neural import neural
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, Learner
from bandit_lab.simulation import drift_of
from experiments.shared.theory import gradient_flow
from experiments.shared.theory.gradient_flow import off_policy_drift

BANDIT = neural(2, 2, 2, width=3)
WEIGHT = 0.3


def climb(bandit=BANDIT) -> gradient_flow.Climb:
    return gradient_flow.climb_of(bandit, WEIGHT)


def elsewhere(seed: int) -> jax.Array:
    start = BANDIT.initial_parameters
    return start + 0.5 * jax.random.normal(jax.random.key(seed), start.shape)


@pytest.mark.parametrize("advantage", gradient_flow.ADVANTAGES)
@pytest.mark.parametrize("estimator", gradient_flow.ESTIMATORS)
def test_the_off_policy_drift_is_that_of_the_simulation(advantage, estimator):
    learner = Learner(BANDIT, ADVANTAGES[advantage](), ESTIMATORS[estimator]())
    simulated = jax.jit(drift_of(learner, "mean_field"))(elsewhere(1), elsewhere(2), WEIGHT)
    derived = off_policy_drift(climb(), advantage, estimator, elsewhere(1), elsewhere(2))
    np.testing.assert_allclose(derived, simulated, rtol=1e-9, atol=1e-13)
    other = off_policy_drift(climb(), advantage, estimator, elsewhere(1), elsewhere(3))
    assert np.max(np.abs(other - simulated)) > 1e-3 or (advantage, estimator) == ("dr_grpo", "ratio")


def test_parts_add_up_to_the_hessian_and_frozen_has_no_fresh_part():
    place = np.asarray(elsewhere(1))
    largest = gradient_flow.sharpness(climb(), "grpo", place[None])[0]
    for estimator in gradient_flow.ESTIMATORS:
        fresh, stale = gradient_flow.stiffness_parts(climb(), "grpo", estimator, place, 4)
        assert np.max(np.linalg.eigvals(fresh + stale).real) == pytest.approx(largest, rel=1e-9)
        assert (np.max(np.abs(fresh)) < 1e-12) == (estimator == "frozen")
    assert np.max(np.abs(gradient_flow.stiffness_parts(climb(), "dr_grpo", "ratio", place, 4)[1])) < 1e-12


def test_the_flow_has_order_four():
    """Half the step, a sixteenth of the error: the slope of the errors of three step sizes."""
    times = np.array([8.0])
    ends = [gradient_flow.follow(climb(), "grpo", times, size, every=1)[0] for size in (0.25, 0.125, 0.0625, 0.0078125)]
    errors = [np.linalg.norm(end - ends[-1]) for end in ends[:-1]]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.3)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(4, abs=0.3)
