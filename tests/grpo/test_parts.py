"""Advantages, estimators, staleness and optimisers by their definitions, identities and limits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab.grpo import (
    ADVANTAGES,
    GRPO,
    DrGRPO,
    Lag,
    Learner,
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


def test_a_learner_is_a_pytree_whose_static_part_is_hashable():
    one, other = learner(), learner()
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert hash(jax.tree.structure(one)) == hash(jax.tree.structure(other))
    assert isinstance(jax.tree.map(lambda x: x, one), Learner)
