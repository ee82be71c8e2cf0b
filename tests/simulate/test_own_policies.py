"""What the fast path finds out about a policy of its own: few numbers that are not zero, and a softmax at its end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.sequence import sequence
from bandit_lab.simulate.fast.softmax_head import before_softmax
from bandit_lab.simulate.lane_sparse import Sparse, where_few
from bandit_lab.simulate.lanes_last import over_lanes, spread

DRAW = np.random.default_rng(3)


def few_of(shape, count):
    """An array with so many numbers that are not zero."""
    array = np.zeros(shape)
    array.flat[DRAW.choice(array.size, count, replace=False)] = DRAW.normal(size=count)
    return array


PRODUCTS = {
    "matrix times vector": ("xkd,d->xk", (4, 3, 20), (20,)),
    "back": ("xk,xkd->d", (4, 3, 20), (4, 3)),
    "matrix on the right": ("ad,xkd->axk", (4, 3, 20), (5, 20)),
    "one axis of three": ("xkd,kc->xdc", (4, 3, 20), (3, 2)),
    "a shared axis": ("xkd,xd->xk", (4, 3, 20), (4, 20)),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_with_few_numbers_are_those_of_the_whole_matrix(product):
    """Also where the rule for few numbers does not hold (a shared axis), and after an operation on the matrix."""
    written, shape, other = PRODUCTS[product]
    matrix, lanes = few_of(shape, 17), jnp.asarray(DRAW.normal(size=(*other, 6)))
    first = written.startswith("xkd")

    def one(matrix, vector):
        return jnp.einsum(written, *((matrix, vector) if first else (vector, matrix)))

    sparse = jax.tree.map(jnp.asarray, where_few(matrix))
    assert isinstance(sparse, Sparse)
    for function in (one, lambda matrix, vector: one(2 * matrix + 1, vector)):
        found = spread(over_lanes(function, (False, True), sparse, lanes), 6)
        expected = jax.vmap(function, (None, -1), -1)(matrix, lanes)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_only_arrays_with_few_numbers_are_marked():
    few = few_of((8, 16), 32)
    marked = where_few(few)
    np.testing.assert_array_equal(few[tuple(marked.places.T)], marked.numbers)
    assert len(marked.numbers) == 32
    for other in (few_of((8, 16), 33), few.ravel(), few.astype(int), np.eye(7)):
        assert where_few(other) is other
    assert not where_few(np.zeros((8, 16))).numbers.any()


def test_a_softmax_over_the_arms_is_found_where_it_is_the_last_operation():
    bandit = contextual(3, 4, overlap=0.2)
    theta = jnp.linspace(-1, 1, 16)
    logits, found = before_softmax(bandit.log_policy, theta)
    assert found
    np.testing.assert_array_equal(logits(theta), bandit.reference_log_policy + bandit.features @ theta)


@jax.jit
def log_softmax(x):
    """Another function of the same name."""
    return x - jnp.sum(x, axis=-1, keepdims=True)


OTHERS = {
    "over prompts": lambda theta: jax.nn.log_softmax(theta.reshape(4, 4), axis=0),
    "of that name": lambda theta: log_softmax(theta.reshape(4, 4)),
    "not last": lambda theta: 2 * jax.nn.log_softmax(theta.reshape(4, 4)),
    "some arms": lambda theta: jax.nn.log_softmax(theta.reshape(4, 4), where=jnp.arange(4) < 3),
    "no operation": lambda theta: theta,
    "tokens": sequence(4, 2).log_policy,
}


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_policy_is_taken_for_a_softmax(name):
    theta = jnp.ones(20 if name == "tokens" else 16)
    function, found = before_softmax(OTHERS[name], theta)
    assert not found
    assert function is OTHERS[name]
