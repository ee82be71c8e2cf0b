"""Optimisers of optax by name, over what optax itself exports."""

import inspect
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bandit_lab.grpo import OPTIMIZERS, Optimizer, optimizer_names
from bandit_lab.grpo.optimizer import REFUSED

EXPORTED = [
    name
    for name in sorted(vars(optax))
    if not name.startswith(("_", "scale_by_"))
    and (inspect.isroutine(vars(optax)[name]) or isinstance(vars(optax)[name], partial))
    and any("learning_rate" in parameter for parameter in inspect.signature(vars(optax)[name]).parameters)
]


def two_updates(name: str, rate, momentum, start, gradients):
    """(parameters, state before, state after) of two descent steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # optimistic_adam
        built = Optimizer(name).build(rate, momentum)
    theta, first = start, built.init(start)
    state = first
    for gradient in gradients:
        change, state = built.update(gradient, state, theta)
        theta = optax.apply_updates(theta, change)
    return theta, first, state


def test_an_option_of_its_own_wins_over_the_shared_momentum():
    gradients = [jnp.array([1.0, -2.0]), jnp.array([-1.0, 0.5])]
    for options, b1 in (((), 0.2), ((("b1", 0.7),), 0.7)):
        ours, theirs = Optimizer("adam", options).build(jnp.array(0.1), jnp.array(0.2)), optax.adam(0.1, b1=b1)
        states = [one.init(gradients[0]) for one in (ours, theirs)]
        for gradient in gradients:
            (a, states[0]), (b, states[1]) = ours.update(gradient, states[0]), theirs.update(gradient, states[1])
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_every_optimiser_that_optax_exports_is_taken_or_refused_with_a_reason():
    assert len(EXPORTED) > 30
    assert {"nadam", "nadamw", "adadelta", "adafactor", "adam", "signum"} <= set(optimizer_names())
    assert set(EXPORTED) == set(optimizer_names()) - (set(OPTIMIZERS) - {"sgd"}) | set(REFUSED)
    for name, reason in REFUSED.items():
        with pytest.raises(ValueError, match=f"optimizer.name: .* got '{name}'") as caught:
            Optimizer(name)
        assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["scale_by_rprop", "chain"])
def test_what_is_no_optimiser_is_unknown(name):
    """`scale_by_rprop` was taken for an optimiser: without its sign it climbs."""
    with pytest.raises(ValueError, match=r"optimizer\.name: expected one of"):
        Optimizer(name)


@pytest.mark.parametrize("name", sorted({*EXPORTED} - {*REFUSED}))
def test_an_optimiser_descends_and_has_a_state_that_a_scan_can_carry(name):
    """Two updates go down the gradient (`rprop` compares two), with a traced learning rate, in both precisions."""
    for dtype in (jnp.float32, jnp.float64):
        start, gradient = jnp.asarray([1.0, -1.0, 0.5], dtype), jnp.asarray([1.0, -2.0, 0.5], dtype)
        call = partial(two_updates, name, momentum=jnp.asarray(0.5, dtype), start=start, gradients=[gradient] * 2)
        shapes = jax.eval_shape(call, jnp.asarray(0.1, dtype))
        assert jax.tree.structure(shapes[1]) == jax.tree.structure(shapes[2])
        leaves = zip(jax.tree.leaves(shapes[1]), jax.tree.leaves(shapes[2]), strict=True)
        assert all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in leaves)
        assert (shapes[0].shape, shapes[0].dtype) == (start.shape, start.dtype)
    theta, _, _ = call(jnp.asarray(0.1, dtype))
    assert np.all(np.sign(np.asarray(start - theta)) == np.sign(gradient))


@pytest.mark.parametrize("name", ["nadam", "nadamw", "adafactor", "signum", "rmsprop", "adan"])
def test_momentum_reaches_the_optimiser(name):
    """A large gradient, then a small one the other way: momentum decides where the second update goes."""
    start, gradient = jnp.ones(2), jnp.asarray([1.0, -2.0])
    places = [two_updates(name, 0.1, mu, start, [gradient, -0.3 * gradient])[0] for mu in (0.0, 0.9)]
    assert np.all(np.abs(places[0] - places[1]) > 1e-3)
