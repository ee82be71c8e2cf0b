"""Exact moments of the sampled gradient: against closed forms, the exact mean, and sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab import theory
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, DAPO, RLOO, DrGRPO, Frozen, Learner, Ratio, Uncorrected
from bandit_lab.simulation import finite_group, sampled
from bandit_lab.simulation.finite_group import group_moments

pytestmark = pytest.mark.usefixtures("compiled_quickly")

BERNOULLI = k_arm((0.85, 0.6, 0.2), reference_logits=(0.2, 0.0, -0.4))
GRADED = k_arm((0.9, 0.7, 0.3, 0.3), reference_logits=(0.2, 0.0, -0.4, 0.1), kind="fixed")


def places(bandit):
    """Current and behaviour parameters, unequal and not on the same policy."""
    size = len(bandit.initial_parameters)
    return jnp.linspace(0.5, -0.3, size), jnp.linspace(0.4, 0.1, size) ** 2


@pytest.mark.parametrize("size", [2, 16])
@pytest.mark.parametrize("advantage", ["grpo", "dr_grpo", "rloo", "dapo"])
def test_covariance_is_the_closed_form_for_binary_rewards(advantage, size):
    """On policy, three Bernoulli arms, 3 prompts: 1e-12 relative to the largest entry."""
    learner = Learner(BERNOULLI, advantage=ADVANTAGES[advantage](), group_size=size, prompts=3)
    theta, _ = places(BERNOULLI)
    moments = jax.jit(group_moments(learner))(1.0, theta, theta)
    policy = np.exp(np.asarray(BERNOULLI.log_policy(theta)))[0]
    success = np.asarray(BERNOULLI.law.means)[0]
    expected = theory.binary_covariance(theory.GroupLaw(advantage, size), success, policy) / 3
    np.testing.assert_allclose(moments.covariance, expected, rtol=0, atol=1e-12 * expected.max())
    square = np.asarray(moments.mean) ** 2 + np.diag(expected)
    np.testing.assert_allclose(moments.square, square, rtol=1e-10)


LEARNERS = {
    "graded, ratio, sampled KL": Learner(GRADED, estimator=Ratio(), group_size=4, kl_estimator="k3", prompts=2),
    "dapo, ratio": Learner(BERNOULLI, advantage=DAPO(), estimator=Ratio(), group_size=4),
    "rloo, uncorrected": Learner(two_arm(), advantage=RLOO(), estimator=Uncorrected(), group_size=32),
    "mean-only, frozen, sampled KL": Learner(
        GRADED, advantage=DrGRPO(), estimator=Frozen(), group_size=3, kl_estimator="k3"
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_mean_is_that_of_the_exact_dynamics(name):
    """Off policy; two independent summations of the same mean, 1e-13."""
    learner = LEARNERS[name]
    theta, behaviour = places(learner.bandit)
    exact = finite_group(learner)(jax.random.key(0), 0.7, theta, behaviour).value
    mean = jax.jit(group_moments(learner))(0.7, theta, behaviour).mean
    np.testing.assert_allclose(mean, exact, rtol=0, atol=1e-13)


SAMPLED = [n if "KL" in n else pytest.param(n, marks=pytest.mark.nightly) for n in LEARNERS]


@pytest.mark.parametrize("name", SAMPLED)
def test_covariance_against_sampled_gradients(name):
    """n = 200,000 gradients, seed 5; |z| <= 5 for each of at most 10 distinct entries: false alarm < 6e-6 per case.

    Planted: a covariance too large by G/(G - 1), as if it had been divided by G - 1.
    """
    learner, count = LEARNERS[name], 200_000
    theta, behaviour = places(learner.bandit)
    draw = jax.jit(jax.vmap(lambda key: sampled(learner)(key, 0.7, theta, behaviour).value))
    gradients = np.asarray(draw(jax.random.split(jax.random.key(5), count)))
    centred = gradients - gradients.mean(axis=0)
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(axis=0) / np.sqrt(count)
    moments = jax.jit(group_moments(learner))(0.7, theta, behaviour)
    covariance = np.asarray(moments.covariance)
    assert np.abs((products.mean(axis=0) - covariance) / error).max() <= 5
    wrong = covariance * learner.group_size / (learner.group_size - 1)
    assert np.abs((products.mean(axis=0) - wrong) / error).max() > 5


@pytest.mark.parametrize("estimator", [Frozen(), Ratio(), Uncorrected()])
def test_an_arm_that_is_hardly_ever_drawn_or_never(estimator):
    """Against the closed form of equal rewards and the k3 term, on policy, from a gap of 0.5 to one of 1000.

    The term of one action is f S = (1 - r/p) S with the mean (p - r) and the square sum (p - r)^2/p, S = e_k - p; the
    signal is 0. The closed form is in long double. An arm below the smallest double is never drawn: 0 for it.
    """
    bandit = two_arm((0.5, 0.5), reference_logits=(0.0, 0.4), kind="fixed")
    moments = jax.jit(group_moments(Learner(bandit, estimator=estimator, group_size=4, kl_estimator="k3")))
    reference = np.exp(np.asarray(bandit.reference_log_policy, np.longdouble))[0]
    for gap in (0.5, 30.0, 300.0, 360.0, 700.0, 706.0, 720.0, 744.0, 746.0, 1000.0):
        theta = jnp.array([gap, 0.0])
        rare = np.exp(-np.longdouble(gap)) / (1 + np.exp(-np.longdouble(gap)))
        policy = np.array([1 - rare, rare])
        drawn = policy >= np.finfo(float).tiny
        scores = np.eye(2) - policy
        slope = np.where(drawn, 1 - reference / policy, 0)
        held = np.where(drawn, policy, 0) * slope
        mean = -held @ scores
        square = (scores.T * (np.where(drawn, policy, 0) * slope**2)) @ scores
        group = moments(1.0, theta, theta)
        np.testing.assert_allclose(group.mean, mean.astype(float), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(
            group.covariance, ((square - np.outer(mean, mean)) / 4).astype(float), rtol=1e-11, atol=1e-13
        )
