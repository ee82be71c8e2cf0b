"""Exact means where actions depend on each other, against the sum over every ordered batch, straight from the rules."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.tabular import k_arm
from bandit_lab.grpo import (
    ADVANTAGES,
    ESTIMATORS,
    Learner,
    Ratio,
    counted,
    drawn_advantages,
    policy_gradient,
    shift_of,
)
from bandit_lab.simulation import drift_of

THETA = {
    "arms": (jnp.array([0.3, -0.2]), jnp.array([-0.1, 0.4])),
    "prompts": (jnp.array([0.3, -0.2, 0.5, 0.1, -0.4, 0.2]), jnp.array([-0.1, 0.4, 0.2, -0.3, 0.1, 0.3])),
}
BANDITS = {
    "arms": k_arm((0.8, 0.35), reference_logits=(0.0, 0.4)),
    "prompts": contextual(contexts=2, arms=2, overlap=0.3, high=0.85, low=0.25, spread=0.7, seed=3),
}


class GroupRatio:
    """The ratio, written as a rule for whole groups."""

    at_snapshot = False

    def of_group(self, log_policy, log_old, advantage, share):
        return advantage * jnp.exp(log_policy - log_old)


def enumerated(learner, theta, behaviour, weight):
    """E[gradient] over all batches: contexts, arms and rewards of every action in order; prompts [P], groups of G."""
    bandit, size, prompts = learner.bandit, learner.group_size, learner.prompts
    policy, shift = shift_of(learner, theta, behaviour)
    contexts, arms = policy.shape
    values = bandit.law.values
    pairs = list(product(range(arms), range(len(values))))
    groups = [(x, *zip(*g, strict=True)) for x in range(contexts) for g in product(pairs, repeat=size)]
    chance = np.array([
        np.prod([policy[x, k] * bandit.law.probabilities[x, k, u] for k, u in zip(a, r, strict=True)]) / contexts
        for x, a, r in groups
    ])  # fmt: skip
    context, arm, value = (np.array(part) for part in zip(*groups, strict=True))
    if learner.advantage.drops_silent:
        chance = np.where((value == value[:, :1]).all(1), 0.0, chance)
        chance = chance / chance.sum()
    batches = np.array(list(product(range(len(groups)), repeat=prompts)))
    rewards = values[value[batches]]  # [B, P, G]
    advantage = jax.jit(jax.vmap(lambda r: drawn_advantages(learner.advantage, r)))(rewards)[:, 0]
    first = batches[:, 0]
    one = jax.vmap(lambda x, a, adv: counted(learner, shift.at(x, a), adv, 1 / size))
    weighted = one(jnp.asarray(context[first]), jnp.asarray(arm[first]), advantage) / size
    of_batch = chance[batches].prod(1)
    signal = np.zeros((contexts, arms))
    np.add.at(signal, (context[first][:, None], arm[first]), of_batch[:, None] * np.asarray(weighted))
    return policy_gradient(learner, weight, theta, behaviour, jnp.asarray(signal), policy / contexts)


CASES = {
    "tpo": ("arms", "grpo", "tpo", 3, 1),
    "tpo, two contexts": ("prompts", "grpo", "tpo", 3, 1),
    "tpo, silent groups dropped": ("arms", "dapo", "tpo", 3, 1),
    "std of the batch": ("arms", "batch_std", "ratio", 2, 2),
    "std of the batch, two contexts": ("prompts", "batch_std", "clipped", 2, 2),
    "std of the batch, three prompts": ("arms", "batch_std", "frozen", 2, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_mean_is_that_of_all_batches(case):
    place, advantage, estimator, size, prompts = CASES[case]
    learner = Learner(
        BANDITS[place], ADVANTAGES[advantage](), ESTIMATORS[estimator](), group_size=size, prompts=prompts
    )
    theta, behaviour = THETA[place]
    found = drift_of(learner, "finite_group")(theta, behaviour, jnp.asarray(0.6))
    expected = enumerated(learner, theta, behaviour, jnp.asarray(0.6))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    alone = drift_of(learner, "mean_field")(theta, behaviour, jnp.asarray(0.6))
    assert np.max(np.abs(found - alone)) > 1e-3  # the two are not the same question


@pytest.mark.parametrize("advantage", ["grpo", "dapo", "median"])
def test_a_rule_for_whole_groups_that_weighs_each_action_is_one_for_actions(advantage):
    made = [Learner(BANDITS["prompts"], ADVANTAGES[advantage](), e, group_size=4) for e in (GroupRatio(), Ratio())]
    group, action = (drift_of(one, "finite_group")(*THETA["prompts"], jnp.asarray(0.6)) for one in made)
    np.testing.assert_allclose(group, action, atol=1e-14)


def test_the_std_of_an_ever_larger_batch_is_that_of_all_contexts():
    """With P prompts the mean nears that of infinitely many as 1/P; with one prompt it is grpo."""
    theta, behaviour = THETA["arms"]

    def mean(advantage, prompts):
        learner = Learner(BANDITS["arms"], ADVANTAGES[advantage](), Ratio(), group_size=3, prompts=prompts)
        return np.asarray(drift_of(learner, "finite_group")(theta, behaviour, jnp.asarray(0.0)))

    np.testing.assert_allclose(mean("batch_std", 1), mean("grpo", 1), atol=1e-14)
    few, some, many = (mean("batch_std", count) for count in (3, 6, 12))
    np.testing.assert_allclose((some - few) / (many - some), 2.0, rtol=0.3)
