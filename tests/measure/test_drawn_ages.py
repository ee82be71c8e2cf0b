"""Random staleness: the law of the ages, and the age-averaged drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import learner

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, init, update
from bandit_lab.simulation import DYNAMICS
from experiments.shared.random_ages import Random, age_at, age_shares

ARMS = two_arm((0.9, 0.1))


def frozen(staleness, mean_age, **options):
    """Two noisy arms, everything stale: one stiffness."""
    return learner("grpo", ARMS, staleness, horizon=Random().horizon_for(mean_age), **options)


def test_drawn_ages_have_the_geometric_law():
    """n = 200,000 ages, key 0, mean age 2.5: shares of ages 0..15 within 5 standard errors (false alarm below 1e-5).

    Planted: a law that begins at age 1.
    """
    ages = np.asarray(age_at(jax.random.uniform(jax.random.key(0), (200_000,)), jnp.array(2.5), 15))
    shares, expected = np.bincount(ages, minlength=16) / len(ages), np.asarray(age_shares(jnp.array(2.5), 15))
    error = np.sqrt(expected * (1 - expected) / len(ages))
    assert expected.sum() == pytest.approx(1, abs=1e-15)
    q = 2.5 / 3.5
    np.testing.assert_allclose(expected[:3], [(1 - q), (1 - q) * q, (1 - q) * q**2], rtol=1e-14)
    assert np.all(np.abs(shares - expected) <= 5 * error)
    assert np.any(np.abs(shares[1:] - expected[:-1]) > 5 * error[1:])


def test_drawn_policies_are_as_old_as_their_ages():
    """theta_t = t + 1: the age that acts is t - (value - 1), never older than the run or the horizon."""
    rule, seen = Random(), []
    state = rule.init(jnp.array([1.0]), 6)
    for t in range(300):
        acting, state = rule.behaviour(state, jnp.array([t + 1.0]), jnp.int32(t), 2.0, jax.random.key(t))
        seen.append(t + 1 - int(acting[0]))
    assert all(0 <= age <= min(t, 6) for t, age in enumerate(seen))
    # 293 ages truncated at 6: mean within 5 standard errors
    share = np.asarray(age_shares(2.0, 6))
    mean = share @ np.arange(7)
    spread = np.sqrt(share @ np.arange(7) ** 2 - mean**2)
    assert abs(np.mean(seen[7:]) - mean) <= 5 * spread / np.sqrt(293)


def test_the_mean_over_drawn_ages_is_the_averaged_gradient():
    """One step from one history, 20,000 drawn ages, key 1, |z| <= 5 on one number; the youngest policy alone fails."""
    hyper = Hyper(jnp.array(1.0), jnp.array(0.0), jnp.array(1.5), jnp.array(1.0))
    ring = jnp.linspace(0, 1, 41)[:, None] * jnp.array([1.0, -1.0])
    updates = {}
    for name in ("random", "random_mean"):
        trained = frozen(name, 1.5)
        state = init(trained, hyper, jnp.array([0.3, -0.1]))._replace(staleness=ring, step=jnp.int32(97))
        gradient = DYNAMICS["mean_field"](trained)
        one = jax.jit(lambda k, t=trained, g=gradient, s=state: update(t, g, hyper, k, s)[1].gradient)
        updates[name] = jax.vmap(one)(jax.random.split(jax.random.key(1), 20_000))[:, 0]
    drawn, averaged = updates["random"], updates["random_mean"]
    assert float(jnp.ptp(averaged)) == 0
    z = (drawn.mean() - averaged[0]) / (drawn.std() / np.sqrt(20_000))
    assert abs(float(z)) <= 5
    fresh = DYNAMICS["mean_field"](trained)(jax.random.key(0), 1.0, state.theta, state.theta).value[0]
    assert abs(float((drawn.mean() - fresh) / (drawn.std() / np.sqrt(20_000)))) > 5
