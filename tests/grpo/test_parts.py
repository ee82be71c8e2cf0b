"""Advantages, estimators, staleness and optimisers by their definitions, identities and limits."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from settings import learner

from bandit_lab.grpo import (
    ADVANTAGES,
    GRPO,
    RLOO,
    STALENESS,
    DrGRPO,
    Lag,
    Learner,
    Optimizer,
    Pipeline,
    Refresh,
    advantages,
    drawn_advantages,
)

REWARDS = jnp.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])


def drawn(advantage, rewards):
    return drawn_advantages(advantage, rewards[None])[0]


@pytest.mark.parametrize("name", ADVANTAGES)
def test_advantages_are_group_centred_and_vanish_in_a_silent_group(name):
    advantage = ADVANTAGES[name]()
    if not advantage.centred:
        pytest.skip("declared as not centred")
    assert abs(float(drawn(advantage, REWARDS).sum())) < 1e-14
    for level in (0.0, 1.0, 0.1):  # 0.1 is not exact in binary: a mean of seven of them is not 0.1
        silent = drawn(advantage, jnp.full(7, level))
        np.testing.assert_allclose(silent, 0, atol=1e-15)
        assert np.all(np.isfinite(jax.jacfwd(partial(drawn, advantage))(jnp.full(7, level))))


def test_grpo_has_unit_population_std_and_ddof_scales_it():
    assert float(jnp.std(drawn(GRPO(), REWARDS))) == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(drawn(GRPO(ddof=1), REWARDS), drawn(GRPO(), REWARDS) * np.sqrt(6 / 7), rtol=1e-14)
    with_eps = drawn(GRPO(eps=0.25), REWARDS)
    np.testing.assert_allclose(with_eps, drawn(DrGRPO(), REWARDS) / (jnp.std(REWARDS) + 0.25), rtol=1e-14)


def test_a_silent_grpo_group_is_exactly_zero():
    assert np.all(np.asarray(drawn(GRPO(), jnp.full(7, 0.1))) == 0)


def test_rloo_is_dr_grpo_times_g_over_g_minus_one():
    np.testing.assert_allclose(drawn(RLOO(), REWARDS), drawn(DrGRPO(), REWARDS) * 7 / 6, rtol=1e-14)
    leave_one_out = [float(REWARDS[i] - jnp.delete(REWARDS, i).mean()) for i in range(7)]
    np.testing.assert_allclose(drawn(RLOO(), REWARDS), leave_one_out, atol=1e-15)


@pytest.mark.parametrize("name", ADVANTAGES)
def test_population_advantage_is_the_limit_of_large_groups(name):
    """A group of 4,000 with exactly the law's shares differs from the limit only where G enters (RLOO: 1/G)."""
    values, law = jnp.array([0.0, 0.5, 2.0]), jnp.array([0.25, 0.5, 0.25])
    rewards = jnp.repeat(values, np.array([1000, 2000, 1000]))
    group = drawn(ADVANTAGES[name](), rewards)[np.array([0, 1000, 3000])]
    np.testing.assert_allclose(group, advantages(ADVANTAGES[name](), values, law, None), atol=2 / 4000)


def ages(rule, interval: int, steps: int = 40) -> list[int]:
    """Age of the behaviour policy at each step when theta_t = t + 1, so that theta_0 differs from an empty slot."""
    state, seen = rule.init(jnp.array([1.0]), 8), []
    for t in range(steps):
        behaviour, state = rule.behaviour(state, jnp.array([t + 1.0]), jnp.int32(t), jnp.int32(interval))
        seen.append(t + 1 - int(behaviour[0]))
    return seen


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_ages_of_the_three_staleness_models(n):
    steps = range(40)
    assert ages(Refresh(), n) == [t % n for t in steps]
    assert ages(Lag(), n) == [min(t, n) for t in steps]
    assert ages(Pipeline(), n) == [t - max((t // n - 1) * n, 0) for t in steps]


def test_models_coincide_where_they_should():
    assert ages(Refresh(), 1) == ages(Lag(), 0)
    assert ages(Pipeline(), 1) == ages(Lag(), 1)


@pytest.mark.parametrize("name", STALENESS)
def test_smallest_interval_is_declared(name):
    assert STALENESS[name]().smallest_interval in (0, 1)


def trajectory(name: str, gradients, rate=0.1, momentum=0.7) -> np.ndarray:
    """Parameters after each ascent step along given gradients."""
    optimizer = Optimizer(name).build(jnp.array(rate), jnp.array(momentum))
    theta, path = jnp.zeros(2), []
    state = optimizer.init(theta)
    for g in gradients:
        change, state = optimizer.update(-g, state, theta)
        theta = theta + change
        path.append(theta)
    return np.array(path)


def test_heavy_ball_conventions_against_their_recurrences():
    gradients = jax.random.normal(jax.random.key(1), (12, 2))
    for name, gain, look_ahead in (("sgd", 1.0, False), ("sgd_ema", 0.3, False), ("nesterov", 1.0, True)):
        theta, v, path = np.zeros(2), np.zeros(2), []
        for g in np.asarray(gradients):
            v = 0.7 * v + gain * g
            theta = theta + 0.1 * (0.7 * v + g if look_ahead else v)
            path.append(theta)
        np.testing.assert_allclose(trajectory(name, gradients), path, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adabelief", "lion", "yogi"])
def test_optax_optimisers_by_name(name):
    gradients = jax.random.normal(jax.random.key(2), (5, 2))
    momentum = {} if name == "rmsprop" else {"b1": 0.7}
    if name == "rmsprop":
        momentum = {"momentum": 0.7}
    theirs = getattr(optax, name)(0.1, **momentum)
    theta, path = jnp.zeros(2), []
    state = theirs.init(theta)
    for g in gradients:
        change, state = theirs.update(-g, state, theta)
        theta = theta + change
        path.append(theta)
    np.testing.assert_allclose(trajectory(name, gradients), path, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Optimizer("adamm"), ("optimizer.name", "sgd_ema", "adamw", "adamm")),
        (lambda: Optimizer("adam", (("beta7", 1),)), ("optimizer.options", "b2", "beta7")),
        (lambda: learner(group_size=1), ("group_size", ">= 2", "1")),
        (lambda: learner(prompts=0), ("prompts", ">= 1", "0")),
        (lambda: learner(kl_estimator="k9"), ("kl_estimator", "exact", "k3", "k9")),
        (lambda: learner(staleness="lag", batch_reuse=True), ("batch_reuse", "lag")),
    ],
)
def test_bad_arguments_are_named(build, words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        build()
    assert all(word in str(caught.value) for word in words)


def test_a_learner_is_a_pytree_whose_static_part_is_hashable():
    one, other = learner(), learner()
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert hash(jax.tree.structure(one)) == hash(jax.tree.structure(other))
    assert isinstance(jax.tree.map(lambda x: x, one), Learner)
