"""What the fast path finds out about a policy of its own: few numbers that are not zero, and where its softmax is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.contextual import contextual
from bandit_lab.bandits.sequence import sequence
from bandit_lab.simulation.fast.softmax_head import cut_at_softmax
from bandit_lab.simulation.lane_sparse import Sparse, where_few
from bandit_lab.simulation.lanes_last import over_lanes, spread

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


STRETCHES = {
    "a diagonal": np.eye(12),
    "below its middle": np.eye(12, 16, 3),
    "rows at both ends empty": np.pad(np.eye(9, 12), ((2, 1), (0, 0))),
    "own and shared": contextual(4, 3, overlap=0.3).features.reshape(12, 15),
    "one number": np.eye(12)[:1] * np.eye(12),
}


@pytest.mark.parametrize("name", STRETCHES)
@pytest.mark.parametrize("back", [False, True], ids=["forward", "back"])
def test_products_along_diagonals_are_those_of_the_whole_matrix(name, back):
    """Every number counts, and one that is not finite stays in its own rows."""
    matrix = np.array(STRETCHES[name], np.float32)
    matrix[matrix != 0] = np.arange(1, np.count_nonzero(matrix) + 1)
    sparse = where_few(matrix)
    assert isinstance(sparse, Sparse)
    whole = matrix.T if back else matrix
    lanes = DRAW.integers(-9, 10, (whole.shape[1], 6)).astype(np.float32)  # sums are exact
    expected = whole @ lanes
    lanes[3, 2] = np.nan
    expected[whole[:, 3] != 0, 2] = np.nan
    found = over_lanes(lambda m, x: x @ m if back else m @ x, (False, True), sparse, jnp.asarray(lanes))
    np.testing.assert_array_equal(spread(found, 6), expected)


SOFTMAXES = {
    "last": contextual(3, 4, overlap=0.2).log_policy,
    "of every token": sequence(2, 3).log_policy,
    "not last": lambda theta: 2 * jax.nn.log_softmax(theta.reshape(4, 4)),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_a_policy_is_cut_at_its_softmax(name):
    theta = jnp.linspace(-1, 1, {"last": 16, "of every token": 10, "not last": 16}[name])
    cut = cut_at_softmax(SOFTMAXES[name], theta)
    assert (cut.after is None) == (name == "last")
    assert cut.only_reshapes == (name != "last")
    softmax = jax.nn.log_softmax(cut.before(theta))
    np.testing.assert_array_equal(softmax if cut.after is None else cut.after(softmax), SOFTMAXES[name](theta))


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
