"""Where the fast path finds the softmax of a policy of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.sequence import sequence
from bandit_lab.simulation.fast.softmax_head import cut_at_softmax

SOFTMAXES = {
    "last": contextual(3, 4, overlap=0.2).log_policy,
    "of every token": sequence(2, 3).log_policy,
    "not last": lambda theta: 2 * jax.nn.log_softmax(theta.reshape(4, 4)),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_a_policy_is_cut_at_its_softmax(name):
    theta = jnp.linspace(-1, 1, {"last": 16, "of every token": 10, "not last": 16}[name])
    before, after = cut_at_softmax(SOFTMAXES[name], theta)
    assert (after is None) == (name == "last")
    softmax = jax.nn.log_softmax(before(theta))
    np.testing.assert_array_equal(softmax if after is None else after(softmax), SOFTMAXES[name](theta))


@jax.jit
def log_softmax(x):
    """Another function of the same name."""
    return x - jnp.sum(x, axis=-1, keepdims=True)


OTHERS = {
    "over prompts": lambda theta: jax.nn.log_softmax(theta.reshape(4, 4), axis=0),
    "of that name": lambda theta: log_softmax(theta.reshape(4, 4)),
    "and more of theta": lambda theta: theta.reshape(4, 4) + jax.nn.log_softmax(theta.reshape(4, 4)),
    "two of them": lambda theta: jax.nn.log_softmax(theta[:8]) + jax.nn.log_softmax(theta[8:]),
    "some arms": lambda theta: jax.nn.log_softmax(theta.reshape(4, 4), where=jnp.arange(4) < 3),
    "no operation": lambda theta: theta,
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_policy_is_taken_for_a_softmax(name):
    assert cut_at_softmax(OTHERS[name], jnp.ones(16)) is None
