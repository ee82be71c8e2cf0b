"""Rewards that never vary, and policies at a vertex: chances of 0 and 1, where logarithms and roots have their ends."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import nightly_but

from bandit_lab.bandits import k_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, KL_ESTIMATORS, Learner, sees_batch, weighs_groups
from bandit_lab.simulation import drift_of
from bandit_lab.simulation.finite_group import group_moments

CERTAIN = ((1.0, 0.0), (1.0, 1.0), (0.0, 0.0))
EVERY = [(advantage, estimator, "exact") for advantage, estimator in product(ADVANTAGES, ESTIMATORS)]
EVERY += [("grpo", estimator, kl) for estimator, kl in product(("frozen", "tpo"), KL_ESTIMATORS) if kl != "exact"]
SHORT = [("dr_grpo", "tpo", "exact"), ("batch_std", "frozen", "exact"), ("grpo", "frozen", "k3")]
WEIGHT, STEP = 0.7, 1e-5
INSIDE, AT_VERTICES = (jnp.array([0.3, -0.2]), jnp.array([-0.1, 0.4])), jnp.array([[800.0, 0.0], [0.0, 800.0]])


def learner_of(rewards, advantage, estimator, kl):
    """Groups of 3, two of them in a step where the advantage sees both and the mean can be summed."""
    parts = (
        ADVANTAGES[advantage](),
        ESTIMATORS[estimator](),
    )
    one = Learner(k_arm(rewards), *parts, group_size=3, kl_estimator=kl)
    two = sees_batch(one.advantage) and not weighs_groups(one)
    return Learner(k_arm(rewards), *parts, group_size=3, kl_estimator=kl, prompts=2) if two else one


@partial(jax.jit, static_argnames="dynamics")
def drift_and_slopes(learner, theta, behaviour, dynamics="finite_group"):
    """Drift [D], its two Jacobians [D, D], and the same two by central differences."""
    drift, slopes, seen = drift_of(learner, dynamics), [], []
    at = (theta, behaviour)
    for place in range(2):

        def moved(x, place=place):
            return drift(*(x if i == place else y for i, y in enumerate(at)), WEIGHT)

        steps = STEP * jnp.eye(len(theta))
        ahead, behind = (jax.vmap(moved)(at[place] + sign * steps) for sign in (1, -1))
        slopes.append(jax.jacfwd(moved)(at[place]))
        seen.append((ahead - behind).T / (2 * STEP))
    return drift(theta, behaviour, WEIGHT), slopes, seen


@pytest.mark.parametrize(("advantage", "estimator", "kl"), nightly_but(SHORT, EVERY))
def test_the_drift_has_its_derivatives(advantage, estimator, kl):
    """Against central differences, which know no derivative of a logarithm; allowed 1e-7 (their error is 1e-10)."""
    for rewards in CERTAIN:
        _, slopes, seen = drift_and_slopes(learner_of(rewards, advantage, estimator, kl), *INSIDE)
        np.testing.assert_allclose(slopes, seen, atol=1e-7, err_msg=str(rewards))


@pytest.mark.parametrize(("advantage", "estimator", "kl"), nightly_but(SHORT, EVERY))
def test_at_a_vertex_every_number_is_finite(advantage, estimator, kl):
    """Probabilities of 1 and 0 in double precision, where logits are 800 apart: drift, derivatives, moments."""
    learner = learner_of((1.0, 0.0), advantage, estimator, kl)
    for theta in AT_VERTICES:
        for dynamics in ("mean_field", "finite_group"):
            value, slopes, _ = drift_and_slopes(learner, theta, theta, dynamics)
            assert np.all(np.isfinite(value)), (theta, dynamics)
            assert np.all(np.isfinite(slopes)), (theta, dynamics)
        if not weighs_groups(learner) and learner.prompts == 1:
            assert all(np.all(np.isfinite(part)) for part in group_moments(learner)(WEIGHT, theta, theta))
