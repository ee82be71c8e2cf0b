"""The std of GRPO, the ages of the staleness models, and a learner as a tree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab.grpo import (
    GRPO,
    DrGRPO,
    Lag,
    Learner,
    Pipeline,
    Refresh,
    drawn_advantages,
)

REWARDS = jnp.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])


def drawn(advantage, rewards):
    return drawn_advantages(advantage, rewards[None])[0]


def test_grpo_has_unit_population_std_and_ddof_scales_it():
    assert float(jnp.std(drawn(GRPO(), REWARDS))) == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(drawn(GRPO(ddof=1), REWARDS), drawn(GRPO(), REWARDS) * np.sqrt(6 / 7), rtol=1e-14)
    with_eps = drawn(GRPO(eps=0.25), REWARDS)
    np.testing.assert_allclose(with_eps, drawn(DrGRPO(), REWARDS) / (jnp.std(REWARDS) + 0.25), rtol=1e-14)


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


def test_a_learner_is_a_pytree_whose_static_part_is_hashable():
    one, other = learner(), learner()
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert hash(jax.tree.structure(one)) == hash(jax.tree.structure(other))
    assert isinstance(jax.tree.map(lambda x: x, one), Learner)
