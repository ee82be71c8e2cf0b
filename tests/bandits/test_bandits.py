"""Every registered bandit keeps the protocol; bad arguments are named."""

import re
from dataclasses import dataclass, replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from turning import build_escort, build_product

from bandit_lab.bandits import BANDITS, Bandit, expected_reward, k_arm, two_arm

EXAMPLES = {"two_arm": {}, "k_arm": {"rewards": (0.9, 0.5, 0.1)}}


@pytest.mark.parametrize("name", BANDITS)
def test_protocol_shapes_and_normalisation(name):
    bandit = BANDITS[name](**EXAMPLES.get(name, {}))
    assert isinstance(bandit, Bandit)
    contexts, arms = bandit.reference_log_policy.shape
    theta = jax.random.normal(jax.random.key(0), bandit.initial_parameters.shape)
    policy = jnp.exp(bandit.log_policy(theta))
    assert policy.shape == (contexts, arms)
    np.testing.assert_allclose(policy.sum(-1), 1, atol=1e-14)
    np.testing.assert_allclose(jnp.exp(bandit.reference_log_policy).sum(-1), 1, atol=1e-14)
    np.testing.assert_allclose(bandit.law.probabilities.sum(-1), 1, atol=1e-14)
    assert bandit.true_means.shape == (contexts, arms)


def twin(slope):
    """A bandit of a new class with the fields of `k_arm`'s."""
    arms = k_arm((0.9, 0.1))

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Twin(type(arms)):
        def log_policy(self, theta):
            return jax.nn.log_softmax(slope * theta)[None]

    return Twin(arms.law, arms.initial_parameters, arms.reference_log_policy)


def test_the_tree_of_a_bandit_tells_its_class():
    """A cache of `jax.jit` compares trees: were those of two classes equal, one could run the other's program."""
    bandits = [twin(1.0), twin(2.0), k_arm((0.9, 0.1)), build_escort(), build_product()]
    for one, other in combinations(map(jax.tree.structure, bandits), 2):
        assert one != other
    for bandit in bandits:
        again = jax.tree.map(lambda leaf: 2 * leaf, replace(bandit, law=bandit.law))
        assert jax.tree.structure(again) == jax.tree.structure(bandit)
        assert type(again) is type(bandit)


def test_one_compiled_function_serves_many_classes_of_equal_fields():
    """Without the class in the tree, jaxlib 0.10.2 ran another one's program for 52 to 56 of 300 such classes."""
    compiled = jax.jit(lambda bandit, theta: bandit.log_policy(theta))
    theta = np.array([1.0, -1.0])
    for bandit in [twin(0.01 * i) for i in range(60)]:
        np.testing.assert_allclose(compiled(bandit, theta), bandit.log_policy(theta), atol=1e-5)


def test_two_logits_move_the_gap_twice_as_fast_as_one():
    bandit = two_arm((1.0, 0.0))
    gradient = jax.grad(lambda theta: expected_reward(bandit, theta))(jnp.array([0.3, -0.2]))
    p = jax.nn.sigmoid(0.5)
    assert float(gradient[0] - gradient[1]) == pytest.approx(float(2 * p * (1 - p)), rel=1e-14)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: k_arm((0.5,)), ("bandit.rewards", "at least 2 arms")),
        (lambda: k_arm((0.5, 1.2)), ("bandit.rewards[1]", "[0, 1]", "1.2")),
        (lambda: k_arm((0.5, float("nan"))), ("bandit.rewards[1]", "finite")),
        (lambda: k_arm((0.5, 0.1), reference_logits=(0.0, -800.0)), ("bandit.reference_logits", "> 0")),
        (lambda: k_arm((0.5, 0.1), kind="gauss"), ("bandit.kind", "bernoulli, fixed", "gauss")),
    ],
)
def test_bad_arguments_are_named(build, words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        build()
    assert all(word in str(caught.value) for word in words)
