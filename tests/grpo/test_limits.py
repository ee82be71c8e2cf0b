"""Each variant against its definition (by differentiating the objective) and where it equals another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner, own

from bandit_lab.bandits import BANDITS, k_arm
from bandit_lab.grpo import (
    ADVANTAGES,
    ESTIMATORS,
    KL_ESTIMATORS,
    Learner,
    Shift,
    batch_advantages,
    counted,
    drawn_advantages,
    policy_gradient,
)
from bandit_lab.simulation import drift_of

ARMS = k_arm((0.8, 0.55, 0.2), reference_logits=(0.0, 0.4, -0.3))
THETA, OLD = jnp.array([0.7, -0.2, 0.1]), jnp.array([-0.3, 0.5, 0.2])
SEQUENCE = BANDITS["sequence"](vocabulary=2, length=3)


def test_batch_std_of_unequal_prompts_is_the_pooled_std():
    """A batch with exactly the shares of its limit; the mean of the groups' stds (the defect) is another number."""
    rewards = jnp.array([[1.0] * 9 + [0.0], [1.0] + [0.0] * 9])
    rule, laws = ADVANTAGES["batch_std"](), jnp.array([[0.1, 0.9], [0.9, 0.1]])
    group = drawn_advantages(rule, rewards)
    limit = batch_advantages(rule, jnp.array([[0.0], [1.0]]), laws, None)
    np.testing.assert_allclose(group[:, [-1, 0]], limit.T, rtol=1e-14)
    np.testing.assert_allclose(group[0, 0], (1 - 0.9) / 0.5, rtol=1e-14)
    assert abs(float(group[0, 0]) - (1 - 0.9) / 0.3) > 0.1


LOG_OLD = jnp.log(jax.random.uniform(jax.random.key(1), (3, 6), minval=0.1, maxval=0.9))
LOG_NEW = LOG_OLD + 0.3 * jax.random.normal(jax.random.key(2), (3, 6))
SCORES = jnp.array([1.2, -0.7, 0.4, -1.1, 0.9, -0.7])


def clipped(ratio, advantage, low, high):
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - low, 1 + high) * advantage)


def target(log_tokens, temperature):
    q = jax.nn.softmax(jnp.sum(LOG_OLD, 0) + SCORES / temperature)
    return jnp.sum(q * jax.nn.log_softmax(jnp.sum(log_tokens, 0)))


OBJECTIVES = {
    "ratio": ({}, lambda x: jnp.mean(jnp.exp(jnp.sum(x - LOG_OLD, 0)) * SCORES)),
    "clipped": ({"epsilon": 0.1}, lambda x: jnp.mean(clipped(jnp.exp(x - LOG_OLD), SCORES, 0.1, 0.1))),
    "clip_higher": (
        {"epsilon_low": 0.1, "epsilon_high": 0.3},
        lambda x: jnp.mean(clipped(jnp.exp(x - LOG_OLD), SCORES, 0.1, 0.3)),
    ),
    "gspo": (
        {"epsilon_low": 0.05, "epsilon_high": 0.1},
        lambda x: jnp.mean(clipped(jnp.exp(jnp.mean(x - LOG_OLD, 0)), SCORES, 0.05, 0.1)),
    ),
    "cispo": (
        {"epsilon_low": 0.2, "epsilon_high": 0.1},
        lambda x: jnp.mean(jax.lax.stop_gradient(jnp.clip(jnp.exp(x - LOG_OLD), 0.8, 1.1)) * SCORES * x),
    ),
    "tpo": ({"temperature": 0.7}, lambda x: target(x, 0.7)),
    "uncorrected": ({}, lambda x: jnp.mean(SCORES * jnp.sum(x, 0))),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_is_that_of_the_published_objective(name):
    """Six sequences of three tokens, ratios on both sides of every clip: coefficients against reverse autodiff."""
    options, objective = OBJECTIVES[name]
    trained = Learner(SEQUENCE, estimator=ESTIMATORS[name](**options))
    log_old, log_new = jnp.sum(LOG_OLD, 0), jnp.sum(LOG_NEW, 0)
    by_token = trained.estimator.token_weights is not None
    ratio = jnp.exp(LOG_NEW - LOG_OLD) if by_token else jnp.exp(log_new - log_old)
    gradient = counted(trained, Shift(log_old, log_new, ratio), SCORES, 1 / 6) / 6
    np.testing.assert_allclose(jnp.broadcast_to(gradient, (3, 6)), jax.grad(objective)(LOG_NEW), atol=1e-15)


def test_every_estimator_has_its_objective_here():
    same = {"frozen"}  # the gradient of `uncorrected` at the policy that acted
    assert set(OBJECTIVES) | same == set(own(ESTIMATORS))


def test_tpo_vanishes_at_its_target_and_is_grpo_for_a_uniform_policy_at_high_temperature():
    tpo, share, flat = ESTIMATORS["tpo"], jnp.full(6, 1 / 6), jnp.zeros(6)
    np.testing.assert_allclose(
        tpo(0.5).of_group(LOG_OLD[0] + SCORES / 0.5 - 3, LOG_OLD[0], SCORES, share), 0, atol=1e-14
    )
    scores = SCORES - jnp.mean(SCORES)
    np.testing.assert_allclose(1e6 * tpo(1e6).of_group(flat, flat, scores, share), scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(tpo().of_group(LOG_OLD[0], LOG_OLD[0], jnp.zeros(6), share), jnp.zeros(6))


@pytest.mark.parametrize("name", KL_ESTIMATORS)
def test_kl_term_is_the_gradient_of_its_divergence_on_policy(name):
    trained = learner("grpo", ARMS, kl_estimator=name)
    policy = jax.nn.softmax(THETA)[None]
    gradient = policy_gradient(trained, 0.7, THETA, THETA, jnp.zeros((1, 3)), policy)
    kl = KL_ESTIMATORS[name]()
    expected = jax.grad(lambda x: kl.divergence(ARMS.log_policy(x), ARMS.reference_log_policy)[0])(THETA)
    np.testing.assert_allclose(gradient, -0.7 * expected, atol=1e-15)


def test_the_sampled_kl_term_is_the_gradient_of_its_loss():
    log_ratio = jnp.array([-0.7, 0.0, 0.4])
    slope = KL_ESTIMATORS["k3"]().slope(log_ratio, jnp.zeros(3))
    np.testing.assert_allclose(slope, jax.vmap(jax.grad(lambda x: jnp.exp(-x) - 1 + x))(log_ratio), atol=1e-15)


@pytest.mark.parametrize("estimator", ["frozen", "uncorrected"])
def test_entropy_bonus_is_a_kl_to_the_uniform_policy(estimator):
    uniform = k_arm((0.8, 0.55, 0.2))
    learners = [
        Learner(uniform, estimator=ESTIMATORS[estimator](), group_size=5, entropy_weight=bonus) for bonus in (0.2, 0.0)
    ]
    paid, plain = (drift_of(trained, "finite_group") for trained in learners)
    np.testing.assert_allclose(paid(THETA, OLD, 0.5), plain(THETA, OLD, 0.7), atol=1e-15)
    assert np.max(np.abs(paid(THETA, OLD, 0.5) - plain(THETA, OLD, 0.5))) > 1e-2


def test_finite_groups_refuse_what_they_cannot_sum():
    for options, words in (
        ({"estimator": ESTIMATORS["tpo"](), "group_size": 64}, "group_size: expected at most 20000 groups"),
        ({"estimator": ESTIMATORS["tpo"](), "advantage": "batch_std", "prompts": 2}, "prompts: expected 1"),
        ({"advantage": "batch_std", "prompts": 16, "group_size": 16}, "group_size: expected .* and 16 prompts"),
    ):
        trained = learner(options.pop("advantage", "grpo"), ARMS, **({"group_size": 4} | options))
        with pytest.raises(ValueError, match=words):
            drift_of(trained, "finite_group")
