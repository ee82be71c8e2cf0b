"""Our exponential and logarithms against float64."""

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab._numerics import exp, log, log1p


def test_the_exponential_is_right_to_rounding_and_stops_at_its_floor():
    x = np.concatenate([np.linspace(-83, 0, 200_001), np.linspace(-2, 0, 2_000_001)]).astype(np.float32)
    error = np.abs(np.asarray(jax.jit(exp)(x), float) / np.exp(x.astype(float)) - 1)
    assert np.all(error < (2.2 - x) * 1e-7)
    np.testing.assert_allclose([exp(jnp.float32(-1e30)), exp(jnp.float32(-84))], 2.0**-120, rtol=3e-7)
    np.testing.assert_allclose(exp(jnp.array([-3.0, -1.0])), np.exp([-3.0, -1.0]), rtol=1e-15)


def test_the_exponential_is_its_own_derivative():
    for dtype, error in ((np.float32, 3e-7), (np.float64, 1e-15)):
        x = np.array(-1.3, dtype)
        np.testing.assert_allclose([jax.grad(exp)(x), jax.grad(jax.grad(exp))(x)], np.exp(-1.3), rtol=error)


def test_the_logarithm_is_right_to_rounding():
    """1.2e-7 of the value or of 1, whichever is larger; also where both parts nearly cancel, and one step below 1."""
    near = 1 - np.arange(1, 2000) * 2.0**-24
    x = np.concatenate([np.linspace(0.3, 3, 200_001), np.geomspace(2e-38, 3e38, 100_001), near]).astype(np.float32)
    expected = np.log(x.astype(float))
    assert np.max(np.abs(jax.jit(log)(x) - expected) / np.maximum(np.abs(expected), 1)) < 1.2e-7
    assert log(jnp.float32(1)) == 0
    np.testing.assert_allclose(log(jnp.array([0.2, 7.0])), np.log([0.2, 7.0]), rtol=1e-15)


def test_log1p_is_right_to_rounding_everywhere():
    """5.2e-7 of the value, of small arguments of both signs too. Planted: log(1 + x), which loses their digits.

    From log 2 / 2 on, 1 + x is rounded by 6e-8 and the logarithm is off by 1.2e-7 at most.
    """
    small = np.geomspace(1e-37, 1, 100_001)
    x = np.concatenate(
        [small, -small[:-1], np.linspace(-0.9999, 3, 200_001), np.geomspace(1, 3e38, 50_001), -1 + small]
    )
    x = x[x > -1].astype(np.float32)
    x = x[x > -1]
    expected = np.log1p(x.astype(float))
    nonzero = expected != 0

    def worst(values):
        return np.max(np.abs(values - expected)[nonzero] / np.abs(expected[nonzero]))

    assert worst(np.asarray(jax.jit(log1p)(x), float)) < 5.2e-7
    assert worst(np.asarray(jax.jit(lambda x: log(1 + x))(x), float)) > 1e-3
    ends = np.array([0, -0.0, -1, -2, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(jax.jit(log1p)(ends), jnp.log1p(ends))
    np.testing.assert_allclose(log1p(jnp.array([0.2, -0.7])), np.log1p([0.2, -0.7]), rtol=1e-15)
