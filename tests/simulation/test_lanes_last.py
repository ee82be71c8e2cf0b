"""`lanes_last` gives what `jax.vmap` gives, for every kind of operation; keys draw the same numbers by either."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits import BANDITS
from bandit_lab.grpo import Learner
from bandit_lab.simulation.fast.lane_keys import WordKeys, implementation
from bandit_lab.simulation.jax_keys import IMPLEMENTATION, jax_keys, root_words
from bandit_lab.simulation.lanes_last import Laned, over_lanes, spread

LANES = 7
TABLE = np.arange(12.0, dtype=np.float32).reshape(4, 3)
PLACES = np.array([2, 0, 2, 1])
BEYOND = (np.array([-9, 7, 2]), np.array([5, -8, 1]))


@jax.custom_vjp
def _doubled_slope(x):
    return jnp.sin(x)


_doubled_slope.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * g * jnp.cos(x),))


FUNCTIONS = {
    "rows of a table": lambda x: x.reshape(4, 3)[PLACES],
    "entries of a table": lambda x: x.reshape(4, 3)[PLACES, np.array([0, 1, 2, 0])],
    "own rows": lambda x: jnp.asarray(TABLE)[(jnp.abs(x[:5]) * 1.5).astype(int) % 4],
    "own rows of an own table": lambda x: x.reshape(4, 3)[(jnp.abs(x[:5]) * 1.5).astype(int) % 4],
    "a row of many": lambda x: jnp.arange(300.0)[(jnp.abs(x[:2]) * 50).astype(int) % 300],
    "scattered": lambda x: jnp.zeros((4, 2), x.dtype).at[PLACES].add(x[:8].reshape(4, 2)),
    "filled": lambda x: x.at[jnp.array([2, 99])].get(mode="fill", fill_value=0.0),
    "contraction": lambda x: jnp.asarray(TABLE) @ x[:3],
    "contraction of two": lambda x: jnp.einsum("ij,kj->ik", x.reshape(4, 3), x.reshape(4, 3)),
    "batched contraction": lambda x: jnp.einsum("bij,bj->bi", x.reshape(2, 2, 3), x[:6].reshape(2, 3)),
    "long contraction": lambda x: jnp.ones((2, 36), x.dtype) @ jnp.tile(x, 3),
    "sums": lambda x: jnp.sum(x.reshape(2, 3, 2), axis=(0, 2)) + jnp.max(x) + jnp.argmin(x),
    "running sums": lambda x: jnp.cumsum(x.reshape(4, 3), axis=1),
    "running sums of many": lambda x: (jnp.cumsum(jnp.tile(x, 4)), jnp.cumsum(-0.0 * jnp.tile(x**2, 2))),
    "running sums in blocks": lambda x: [
        jnp.cumsum(jnp.tile(x**2, (2, 90))[:, :count], axis=1) for count in (65, 96, 257, 1080)
    ],
    "counts": lambda x: [
        jnp.sum(jnp.tile(x, 17)[:count] > least, dtype=jnp.int32)
        for count in (1, 9, 127, 128, 200)
        for least in (-99, 0)
    ],
    "counts of a part": lambda x: jnp.sum(jnp.where(x > 0, (x > 1).astype(x.dtype), 2)) + jnp.sum((x > 0) * 3),
    "joined and cut": lambda x: jnp.concatenate([x[1::2], jnp.ones(2, x.dtype), jnp.flip(x)])[2:9],
    "padded": lambda x: jnp.pad(x.reshape(4, 3).T, ((1, 0), (0, 2))),
    "chosen": lambda x: jnp.where(x[0] > 0, x, -1),
    "sorted": lambda x: jnp.sort(x),
    "looped": lambda x: jax.lax.while_loop(lambda y: jnp.sum(y**2) > 1, lambda y: y / 2, x),
    "scanned": lambda x: jax.lax.scan(lambda a, b: (a + b, a * b), x[0], x)[1],
    "scanned backwards": lambda x: jax.lax.scan(lambda a, b: (a * b, (a, 2)), 1.0, x, reverse=True),
    "carried, shared at first": lambda x: jax.lax.fori_loop(
        0, 3, lambda i, c: (c[1], c[1] + x[i]), (jnp.float32(0), jnp.float32(0))
    ),
    "repeated": lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1],
    "branched": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "network": lambda x: jax.nn.log_softmax(jnp.tanh(x.reshape(4, 3)) @ jax.nn.relu(x[:3])),
    "slope": jax.grad(lambda x: jnp.sum(jax.nn.log_sigmoid(x.reshape(4, 3)[PLACES]) ** 2)),
    "constant": lambda x: (jnp.ones(3), 3.0, True),
    "truth values": lambda x: (
        (x.reshape(4, 3) > 0)[PLACES],
        (lambda b: (b, b & (x > 1)))(jnp.where(x[0] > 0, x > 0.5, x < 0)),
        jnp.any(x > 2),
        jnp.all(x < 2),
        jnp.sum(x > 0),
    ),
    "whole numbers": lambda x: (
        (x * 10).astype(jnp.int8).reshape(4, 3)[PLACES],
        jnp.cumsum((x * 10).astype(jnp.int8)),
        jnp.min((x**2).astype(jnp.uint8)),
        jnp.tile(x, (40, 1))[jnp.array([3, 39], jnp.uint8), jnp.array([3, 2], jnp.uint8)],
        (x * 9).astype(int) @ jnp.arange(24).reshape(12, 2),
    ),
    "not a number": lambda x: tuple(
        reduced(x.at[place].set(jnp.nan)) for reduced in (jnp.max, jnp.min) for place in (0, 5, 11)
    ),
    "of nothing": lambda x: (jnp.sum(x[:0]), jnp.cumsum(x[:0]), jnp.all(x[:0] > 0), jnp.zeros((2, 0)) @ x[:0]),
    "no step": lambda x: jax.lax.scan(lambda a, b: (a + b, a), x[0], x[:0]),
    "beyond the ends": lambda x: (
        x[jnp.array([50, 2, -1, -60])],
        x.reshape(4, 3).at[(x[:3] * 9).astype(int), (x[3:6] * 9).astype(int)].get(mode="clip"),
        x.reshape(4, 3).at[BEYOND].get(mode="clip"),
    ),
    "beyond the ends, written": lambda x: jnp.zeros((4, 3), x.dtype).at[BEYOND].add(x[:3], mode="clip"),
    "own pieces": lambda x: (
        jax.lax.dynamic_slice(x, ((jnp.abs(x[0]) * 9).astype(int),), (3,)),
        jax.lax.dynamic_update_slice(x, x[:2] * 2, ((jnp.abs(x[0]) * 9).astype(int),)),
    ),
    "own number of turns": lambda x: jax.lax.while_loop(
        lambda c: (c[0] < 10) & (c[1] < 5 * jnp.abs(x[0])), lambda c: (c[0] + 1, c[1] + x[1] ** 2 + 0.3), (0, 0.0)
    ),
    "exchanged in a loop": lambda x: jax.lax.while_loop(
        lambda c: c[0] < 4, lambda c: (c[0] + 1, c[2], c[1] + x), (0, jnp.zeros(12, x.dtype), jnp.zeros(12, x.dtype))
    )[1:],
    "calls in loops": lambda x: jax.lax.scan(
        lambda a, b: (jax.lax.fori_loop(0, 3, lambda i, c: jax.jit(jnp.multiply)(c, b) + i, a), jax.nn.relu(a)),
        x.dtype.type(0),
        x,
    ),
    "own turns in a loop": lambda x: jax.lax.scan(
        lambda a, b: (
            (a[0] + 1, jax.lax.while_loop(lambda c: c[0] < 5 * jnp.abs(b), lambda c: (c[0] + 1, c[1] + 1), (0, 0))[1]),
            jax.lax.scan(lambda c, d: (c + d, a[0]), a[0], jnp.arange(3)),
        ),
        (0, 0),
        x,
    ),
    "branches in a loop": lambda x: jax.lax.scan(
        lambda a, b: (jax.lax.cond(b > 0, lambda: a + b, lambda: a * b), a), x[0], x
    ),
    "order": lambda x: (jnp.argmax(x.reshape(4, 3), 0), jnp.argsort(x.reshape(4, 3), 0), jax.lax.top_k(x, 3)),
    "running": lambda x: (jax.lax.cumsum(x, reverse=True), jax.lax.cummax(x.reshape(4, 3), axis=1)),
    "own derivative": lambda x: (jax.grad(lambda y: jnp.sum(_doubled_slope(y)))(x), _doubled_slope(x)),
    "kept for the way back": jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda y: jnp.sin(y) ** 2)(x))),
    "outside": lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((12,), x.dtype), x, vmap_method="sequential"),
    "keys of lanes": lambda x: jax.random.uniform(jax.random.key((jnp.abs(x[0]) * 99).astype(jnp.uint32)), (3,)),
    "keys looked up": lambda x: jax.vmap(jax.random.uniform)(
        jax.random.split(jax.random.key(1), 4)[(jnp.abs(x[:5]) * 1.5).astype(int) % 4]
    ),
    "keys chosen": lambda x: (lambda key: jax.random.uniform(key) + jax.random.uniform(jax.random.fold_in(key, 2)))(
        jnp.where(x[0] > 0, jax.random.key(1), jax.random.key(2))
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_as_vmap(name):
    x = np.random.default_rng(0).standard_normal((12, LANES)).astype(np.float32)

    def whole(x):
        found = over_lanes(FUNCTIONS[name], (True,), x)
        return jax.tree.map(lambda one: spread(one, LANES), found, is_leaf=lambda one: isinstance(one, Laned))

    found, expected = jax.jit(whole)(x), jax.vmap(FUNCTIONS[name], -1, -1)(x)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["looped", "own number of turns", "calls in loops", "whole numbers", "padded", "network"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_as_vmap_where_numbers_are_double(name, dtype):
    """Python's numbers keep the type of what they meet."""
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((12, LANES)).astype(dtype)
        found, expected = over_lanes(FUNCTIONS[name], (True,), x), jax.vmap(FUNCTIONS[name], -1, -1)(x)
        found = jax.tree.leaves(found, is_leaf=lambda one: isinstance(one, Laned))
        for one, other in zip(found, jax.tree.leaves(expected), strict=True):
            assert spread(one, LANES).dtype == other.dtype
            np.testing.assert_allclose(spread(one, LANES), other, rtol=2e-6, atol=1e-6)


REPEATED = {  # how often an operation stands there, and is left
    "same": (lambda x: jnp.sin(x) + jnp.sin(x), "sin", 2, 1),
    "in functions": (lambda x: jax.jit(jnp.sin)(x) + jax.jit(lambda y: jnp.sin(y))(x), "sin", 2, 1),
    "of a result held in memory": (lambda x: jnp.sin(x + 1) + (lambda y: jnp.sin(y) * y)(x + 1), "sin", 2, 1),
    "of another value": (lambda x: jnp.sin(x) + jnp.sin(2 * x), "sin", 2, 2),
    "of the negative zero": (lambda x: jnp.maximum(x, 0.0) + jnp.maximum(x, -0.0), "max", 2, 2),
    "with another parameter": (lambda x: jnp.sum(x.reshape(3, 4), 0)[:3] + jnp.sum(x.reshape(3, 4), 1), "add", 1, 6),
    "in a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + jnp.sin(x) * jnp.sin(x), x), "sin", 2, 1),
    "in and out of a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + jnp.sin(x), jnp.sin(x)), "sin", 2, 2),
    "drawn": (lambda x: sum(jax.random.uniform(jax.random.key(0)) for _ in range(3)) * x, "random_bits", 3, 1),
}


@pytest.mark.parametrize("name", REPEATED)
def test_nothing_is_done_twice(name):
    """An operation repeated on the same inputs is carried out once; any other is left alone."""
    function, operation, before, after = REPEATED[name]
    x = np.random.default_rng(0).standard_normal((12, LANES)).astype(np.float32)

    def whole(x):
        found = over_lanes(function, (True,), x)
        return jax.tree.map(lambda one: spread(one, LANES), found, is_leaf=lambda one: isinstance(one, Laned))

    def times(jaxpr):
        inner = [getattr(x, "jaxpr", x) for equation in jaxpr.eqns for x in equation.params.values()]
        called = [each for each in inner if hasattr(each, "eqns")]
        return sum(equation.primitive.name == operation for equation in jaxpr.eqns) + sum(map(times, called))

    assert times(jax.make_jaxpr(function)(x[:, 0]).jaxpr) == before
    assert times(jax.make_jaxpr(whole)(x).jaxpr) == after
    expected = jax.vmap(function, -1, -1)(x)
    for one, other in zip(jax.tree.leaves(whole(x)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


def test_effects_happen_for_every_lane():
    seen = []

    def note(y):
        seen.append(float(y))

    def told(x):
        for _ in range(2):
            jax.debug.callback(note, x[0])
        return x + 1

    x = np.arange(3.0 * LANES, dtype=np.float32).reshape(3, LANES)
    found = over_lanes(told, (True,), x)
    jax.effects_barrier()
    np.testing.assert_array_equal(found.array, x + 1)
    assert sorted(seen) == sorted(2 * x[0].tolist())


@pytest.mark.parametrize("name", sorted(BANDITS))
def test_policies_and_their_derivatives(name):
    """log pi and a vector-Jacobian product of every registered bandit at random parameters."""
    bandit = BANDITS[name]()
    contexts, arms = bandit.reference_log_policy.shape
    draw = np.random.default_rng(1)
    theta = draw.standard_normal((bandit.initial_parameters.shape[-1], LANES)).astype(np.float32)
    weights = draw.standard_normal((contexts, arms, LANES)).astype(np.float32)

    def both(bandit, theta, weights):
        log_policy, pull_back = jax.vjp(bandit.log_policy, theta)
        return log_policy, pull_back(weights.astype(log_policy.dtype))[0]

    found = over_lanes(both, (False, True, True), bandit, theta, weights)
    expected = jax.vmap(both, (None, -1, -1), -1)(bandit, theta, weights)
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, Laned)
        np.testing.assert_allclose(one.array, other, rtol=1e-4, atol=1e-5)


DRAWS = {
    "uniform": lambda key: jax.random.uniform(key, (3, 2)),
    "split": lambda key: jax.vmap(lambda k: jax.random.normal(k, (2,)))(jax.random.split(key, 3)),
    "unpacked": lambda key: jax.random.normal(jax.random.split(key, 3)[1]) + jax.random.uniform(key),
    "folded in": lambda key: jax.random.uniform(jax.random.fold_in(key, 5), (4,)),
    "exponential": lambda key: jax.random.exponential(key, (3,)),
    "integers": lambda key: jax.random.randint(key, (5,), 0, 3),
    "in a loop": lambda key: jax.lax.fori_loop(
        0, 3, lambda i, c: (jax.random.fold_in(c[0], i), c[1] + jax.random.uniform(c[0])), (key, jnp.zeros(()))
    )[1],
    "permuted": lambda key: jax.random.permutation(key, 5),
}


@pytest.mark.parametrize("generator", ["hash", "threefry"])
@pytest.mark.parametrize("name", DRAWS)
def test_keys_draw_the_same_numbers_by_vmap(name, generator):
    words = np.random.default_rng(2).integers(0, 2**32, (2, LANES), np.uint32)
    keys = WordKeys(jnp.asarray(words[0]), jnp.asarray(words[1]), generator)
    found = spread(over_lanes(DRAWS[name], (True,), keys), LANES)
    typed = jax.random.wrap_key_data(jnp.asarray(words.T), impl=implementation(generator))
    np.testing.assert_allclose(found, jax.vmap(DRAWS[name], 0, -1)(typed), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", DRAWS)
def test_keys_of_jax_draw_the_numbers_of_jax(name):
    typed = jax.random.split(jax.random.key(5, impl=IMPLEMENTATION), LANES)
    found = spread(over_lanes(DRAWS[name], (True,), jax_keys(typed)), LANES)
    np.testing.assert_array_equal(found, jax.vmap(DRAWS[name], 0, -1)(typed))


@pytest.mark.parametrize("width", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_bits_of_jax_keys(width):
    """Every width, bit for bit. Planted: the words of the neighbouring block."""
    with jax.enable_x64(True):
        typed = jax.random.split(jax.random.key(6, impl=IMPLEMENTATION), LANES)
        expected = jax.vmap(lambda key: jax.random.bits(key, (3, 2), width), 0, -1)(typed)
        found = jax_keys(typed).bits(np.dtype(width).itemsize * 8, (3, 2))
        np.testing.assert_array_equal(found, expected)
        assert not np.array_equal(jnp.roll(found, 1, axis=1), expected)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("seed", [0, 3, 2**31, 2**32 - 1, 2**40 + 7, 2**63 - 1, -5])
def test_words_of_a_seed_are_those_of_jax(seed, double):
    with jax.enable_x64(double):
        words = jax.random.key_data(jax.random.key(seed, impl=IMPLEMENTATION))
        np.testing.assert_array_equal(root_words(seed), words)


def test_numbers_of_split_keys_are_uniform_and_independent():
    """2^17 lanes: mean, variance and correlations of 6 uniforms of 3 parts within 5 errors (false alarm 2e-5).

    Planted: the same part twice.
    """
    lanes = 2**17
    words = np.random.default_rng(3).integers(0, 2**32, (2, lanes), np.uint32)
    keys = WordKeys(jnp.asarray(words[0]), jnp.asarray(words[1]), "hash")

    def drawn(key):
        return jax.vmap(lambda k: jax.random.uniform(k, (2,)))(jax.random.split(key, 3)).reshape(-1)

    def worst(x):
        z = (np.asarray(x, float) - 0.5) * np.sqrt(12)
        products = z @ z.T / lanes
        off = products[~np.eye(len(z), dtype=bool)]
        spreads = (np.diag(products) - 1) / np.sqrt(0.8)
        return np.sqrt(lanes) * max(np.abs(z.mean(1)).max(), np.abs(off).max(), np.abs(spreads).max())

    found = spread(over_lanes(drawn, (True,), keys), lanes)
    assert worst(found) < 5
    assert worst(jnp.concatenate([found, found[:1]])) > 5


def test_a_learner_goes_through_as_an_argument():
    """What does not differ from lane to lane is no array of lanes: the bandit's numbers are shared."""
    learner = Learner(BANDITS["contextual"]())
    theta = np.zeros((learner.bandit.initial_parameters.shape[-1], LANES), np.float32)
    found = over_lanes(
        lambda one, theta: (one.bandit.law.means, one.bandit.log_policy(theta)), (False, True), learner, theta
    )
    assert not isinstance(found[0], Laned)
    assert isinstance(found[1], Laned)
