"""The oscillator against the matrix exponential, its derivatives against differences, its limit against the steps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

from bandit_lab.theory.oscillator import Oscillator, decaying_pair, displacement, oscillator, response
from experiments.shared.theory.release import discrete_response

CASES = {
    "overdamped": (1.0, 5.0, 1.0),
    "far overdamped": (0.01, 3.0, 0.5),
    "critical": (2.0, 4.0, 2.0),
    "just over": (2.0, 4.0, 2.0 * (1 - 1e-9)),
    "just under": (2.0, 4.0, 2.0 * (1 + 1e-9)),
    "oscillatory": (1.5, 0.3, 2.0),
    "negative damping": (1.0, -0.2, 1.0),
    "growing, no oscillation": (1.0, -3.0, 1.0),
    "unstable spring": (1.0, 0.5, -0.3),
}
TIMES = np.array([0.0, 0.3, 1.0, 2.5, 7.0, 20.0])


def by_generator(mass, damping, stiffness, start, velocity):
    generator = np.array([[0.0, 1.0], [-stiffness / mass, -damping / mass]])
    return np.array([(expm(generator * t) @ [start, velocity])[0] for t in TIMES])


@pytest.mark.parametrize("case", CASES)
def test_displacement_is_the_exponential_of_the_generator(case):
    exact = by_generator(*CASES[case], 0.7, -0.4)
    moved = displacement(Oscillator(*CASES[case]), jnp.asarray(TIMES), 0.7, -0.4)
    scale = np.maximum(1.0, np.abs(exact))
    assert np.max(np.abs(np.asarray(moved) - exact) / scale) < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_derivatives_match_central_differences(case):
    base = np.array([*CASES[case], 0.7, -0.4])

    def value(p):
        return displacement(Oscillator(p[0], p[1], p[2]), jnp.asarray(2.5), p[3], p[4])

    forward, reverse = jax.jacfwd(value)(jnp.asarray(base)), jax.grad(value)(jnp.asarray(base))
    step = 1e-5 * np.maximum(np.abs(base), 0.01)
    central = [(value(base + h) - value(base - h)) / (2 * h.sum()) for h in np.diag(step)]
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(forward, central, rtol=2e-6, atol=2e-8)


def test_no_kink_at_critical_damping():
    """A regime switch would give derivative 0 in the mass at critical damping: the planted defect of this test."""
    gradient = jax.grad(lambda m: displacement(Oscillator(m, 4.0, 2.0), jnp.asarray(1.0), 1.0))
    slope = lambda m: float(gradient(m))  # noqa: E731
    assert abs(slope(2.0)) > 1e-3
    assert slope(2.0) == pytest.approx(0.5 * (slope(2.0 - 1e-6) + slope(2.0 + 1e-6)), rel=1e-8)


def test_massless_limit_is_a_single_exponential():
    reward = response(Oscillator(0.0, 4.0, 2.0), jnp.asarray(TIMES), 0.2, 0.9)
    np.testing.assert_allclose(reward, 0.9 - 0.7 * np.exp(-0.5 * TIMES), rtol=0, atol=1e-13)


def test_regimes_and_leading_order_law():
    assert oscillator(0.1, 0.9, 0.01).regime == "overdamped"
    assert oscillator(0.1, 0.9, 1.0).regime == "oscillatory"
    assert Oscillator(2.0, 4.0, 2.0).regime == "critical"
    inside, outside = 0.999 * 0.1 / 8, 1.001 * 0.1 / 8
    assert oscillator(inside, 0.9, 1.0, lag=8).regime == "oscillatory"
    assert oscillator(outside, 0.9, 1.0, lag=8).regime == "unstable"
    assert oscillator(10 * inside, 0.9, 1.0, lag=8, convention="ema").regime == "oscillatory"
    assert oscillator(10 * outside, 0.9, 1.0, lag=8, convention="ema").regime == "unstable"


def test_parameters_of_the_two_masses():
    plain, symmetric = oscillator(0.2, 0.8, 0.5, lag=3.0), oscillator(0.2, 0.8, 0.5, lag=3.0, mass="symmetric")
    assert (plain.mass, plain.damping) == (pytest.approx(4.0), pytest.approx(-0.5))
    assert symmetric.mass == pytest.approx(4.5)
    assert oscillator(0.2, 0.8, 0.5, convention="ema").mass == pytest.approx(20.0)


@pytest.mark.parametrize("convention", ["heavy_ball", "ema", "nesterov"])
def test_oscillator_is_the_small_step_limit_of_the_update(convention):
    """At fixed eta/(1-mu)^2 the error is first order in 1 - mu; the symmetric mass and Nesterov's damping count."""
    errors = []
    for slack in (0.04, 0.02, 0.01):
        mu = 1 - slack
        eta = 0.5 * slack**2 / (slack if convention == "ema" else 1.0)
        path = discrete_response(int(6 / slack), eta, mu, convention)
        osc = oscillator(eta, mu, 1.0, convention=convention, mass="symmetric")
        errors.append(np.abs(displacement(osc, jnp.arange(path.size), 1.0) - path).max())
    order = np.polyfit(np.log([0.04, 0.02, 0.01]), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)


def test_entire_functions_on_both_sides_of_zero():
    z = np.array([-400.0, -1.0001, -0.9999, -1e-6, 0.0, 1e-6, 0.9999, 1.0001, 400.0])
    root = np.sqrt(z.astype(complex))
    cosine, sine = decaying_pair(0.0, z)
    np.testing.assert_allclose(cosine, np.cos(root).real, rtol=1e-13)
    sinc = np.where(z == 0, 1.0, (np.sin(root) / np.where(z == 0, 1.0, root)).real)
    np.testing.assert_allclose(sine, sinc, rtol=1e-13)


def test_decaying_pair_survives_large_arguments():
    cosine, sine = decaying_pair(jnp.asarray(1e6), jnp.asarray(2e6))
    assert float(cosine) == pytest.approx(0.5 * math.exp(-1.0), rel=1e-5)
    assert float(sine) == pytest.approx(0.5 * math.exp(-1.0) / 1e6, rel=1e-5)


def test_single_precision_and_strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        osc = Oscillator(jnp.float32(1.0), jnp.float32(0.5), jnp.float32(2.0))
        reward = response(osc, jnp.arange(5, dtype=jnp.float32), 0.1, 0.9)
    assert reward.dtype == jnp.float32
    wide = response(Oscillator(1.0, 0.5, 2.0), jnp.arange(5.0), 0.1, 0.9)
    np.testing.assert_allclose(reward, wide, atol=2e-6)


def test_without_momentum_nothing_is_inert():
    """Momentum 0 is allowed: no mass, damping 1/eta; the symmetric mass is that of half a step, 1/(2 eta)."""
    plain, symmetric = oscillator(0.1, 0.0, 0.5), oscillator(0.1, 0.0, 0.5, mass="symmetric")
    assert (float(plain.mass), float(plain.damping)) == pytest.approx((0.0, 10.0))
    assert float(symmetric.mass) == pytest.approx(5.0)
