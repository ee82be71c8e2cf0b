"""Random staleness: the law of the ages, the age-averaged drift, and two thresholds under drawn ages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from growth_of_drawn_ages import growth_of_drawn_ages
from settings import cells, learner, nightly_but

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import Hyper, init, update
from bandit_lab.measure import find_fixed_point, generic_direction, measure_stiffness
from bandit_lab.simulation import DYNAMICS
from bandit_lab.theory.random_ages import (
    averaged_threshold,
    mean_square_threshold,
)
from experiments.shared.random_ages import Random, age_at, age_shares
from experiments.shared.theory.lyapunov import lyapunov_threshold

ARMS = two_arm((0.9, 0.1))


def frozen(staleness, mean_age, **options):
    """Two noisy arms, everything stale: one stiffness."""
    return learner("grpo", ARMS, staleness, horizon=Random().horizon_for(mean_age), **options)


def at_fixed_point(trained):
    point = find_fixed_point(trained, "mean_field", 1.0)
    stiffness = measure_stiffness(trained, "mean_field", 1.0, point).largest
    return point.theta, generic_direction(point.basis), stiffness


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


@pytest.mark.parametrize(("rate", "factor"), [("typical", 1), ("mean_square", 2)])
@pytest.mark.usefixtures("compiled_quickly")
def test_without_ages_a_displacement_and_its_square_shrink_by_the_same_factor_every_step(rate, factor):
    """On-policy, exact drift, no momentum: ln |1 - eta K| per step, twice that for the square, and no scatter."""
    trained = frozen("random", 0.0)
    theta, direction, stiffness = at_fixed_point(trained)
    kappa = np.array([0.2, 1.6])
    found = growth_of_drawn_ages(
        trained, "mean_field", cells(kappa / stiffness, 0.0, 0.0), np.tile(theta, (2, 1)), direction, rate=rate,
        steps=300, runs=4,
    )  # fmt: skip
    np.testing.assert_allclose(found.rate, factor * np.log(np.abs(1 - kappa)), rtol=1e-4)
    assert np.all(found.error < 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("mean_age", "momentum"), nightly_but([(3.0, 0.5)], [(9.0, 0.0), (3.0, 0.5)]))
def test_thresholds_with_drawn_ages(mean_age, momentum):
    """At 0.94, 1 and 1.06 times the predicted thresholds: decay, no growth seen, growth.

    Population 1,024 x 2,000 steps, seed 0. The growth rate at the predicted threshold is within 5 standard errors of 0
    (plus the predicted threshold's own error), 6 % off it is not, and has the right sign. Planted: the mean-square
    threshold taken for the typical one, and the averaged one for either.
    """
    trained = frozen("random", mean_age)
    theta, direction, stiffness = at_fixed_point(trained)
    typical, uncertainty = lyapunov_threshold(mean_age, momentum, trained.horizon, tail="clip")
    mean_square = mean_square_threshold(mean_age, momentum)
    for rate, kappa, spread in (("mean_square", mean_square, 0.0), ("typical", typical, uncertainty)):
        other = typical if rate == "mean_square" else mean_square
        grid = np.array([0.94 * kappa, kappa, 1.06 * kappa, other]) / stiffness
        growth = growth_of_drawn_ages(
            trained,
            "mean_field",
            cells(grid, momentum, mean_age),
            np.tile(theta, (4, 1)),
            direction,
            rate=rate,
            steps=2000,
            runs=1024,
        )
        slope = (growth.rate[2] - growth.rate[0]) / 0.12
        error = np.hypot(growth.error, slope * spread / kappa)
        assert abs(growth.rate[1]) <= 5 * error[1]
        assert growth.rate[0] < -5 * error[0]
        assert growth.rate[2] > 5 * error[2]
        assert abs(growth.rate[3]) > 5 * error[3]
    assert averaged_threshold(mean_age, momentum).kappa > 1.5 * typical > 1.5 * mean_square
