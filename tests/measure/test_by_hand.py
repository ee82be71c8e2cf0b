"""What is measured at a place (moments, potential, stiffness, noisy state) against sums over every batch by hand."""

import by_hand
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand_settings import PLACES, VARIED, learner, setting
from scipy.optimize import brentq
from settings import own

from bandit_lab.bandits import two_arm
from bandit_lab.grpo import (
    ADVANTAGES,
    CORRECTIONS,
    ESTIMATORS,
    KL_ESTIMATORS,
    SAMPLERS,
    DrGRPO,
    Hyper,
    Learner,
    Optimizer,
)
from bandit_lab.lab.predict.fixed_point import noise_covariance
from bandit_lab.measure import find_fixed_point, measure_stiffness
from bandit_lab.measure.stiffness import potential
from bandit_lab.simulation.finite_group import group_moments
from experiments.shared.measure.adaptive import noisy_state

pytestmark = pytest.mark.usefixtures("compiled_quickly")

OPTIONS = [
    {"advantage": name, "options": {"advantage": options}}
    for name, options in ((n, VARIED["advantage"].get(n, {})) for n in sorted(ADVANTAGES))
]
ON_GROUPS = [one for one in OPTIONS if one["advantage"] != "batch_std"]
OTHERS = [{"estimator": name} for name in sorted(own(ESTIMATORS)) if name != "tpo"]
OTHERS += [{"kl_estimator": name} for name in sorted(KL_ESTIMATORS)]
LAWS = [{"sampler": name, "estimator": "uncorrected"} for name in sorted(SAMPLERS)]
LAWS += [{"correction": name, "sampler": "temperature"} for name in sorted(CORRECTIONS)]


def named(rules):
    return next(iter(rules.values()))


@pytest.mark.parametrize("rules", [*ON_GROUPS, *OTHERS, *LAWS], ids=named)
def test_moments_of_a_batch_are_those_of_every_batch(rules):
    """Off policy, two contexts, the sampled KL loss, an entropy bonus: mean and covariance to 1e-12. Planted: two
    prompts have half the covariance."""
    rules = {"estimator": "ratio", "kl_estimator": "k3", "entropy_weight": 0.4, **rules}
    theta, old = PLACES["prompts"]
    mean, covariance = by_hand.moments(setting("prompts", **rules), theta, old, 0.6)
    moments = jax.jit(group_moments(learner("prompts", **rules)))(0.6, jnp.asarray(theta), jnp.asarray(old))
    np.testing.assert_allclose(moments.mean, mean, atol=1e-12)
    np.testing.assert_allclose(moments.covariance, covariance, atol=1e-12)
    two = jax.jit(group_moments(learner("prompts", **rules, prompts=2)))(0.6, jnp.asarray(theta), jnp.asarray(old))
    np.testing.assert_allclose(two.covariance, covariance / 2, atol=1e-12)


@pytest.mark.parametrize("rules", ON_GROUPS, ids=named)
def test_the_noise_of_the_theory_is_that_of_every_batch(rules):
    """Two noisy arms, options of the advantage, two prompts: in the direction (1, -1)/sqrt(2), to 1e-12."""
    theta = PLACES["arms"][0]
    _, covariance = by_hand.moments(setting("arms", **rules, group_size=3), theta, theta, 0.6)
    trained = learner("arms", **rules, group_size=3, prompts=2)
    policy = np.exp(np.asarray(trained.bandit.log_policy(jnp.asarray(theta))))[0]
    noise, reason = noise_covariance(trained, policy)
    assert reason is None
    along = np.array([1.0, -1.0]) / np.sqrt(2)
    np.testing.assert_allclose(noise, [[along @ covariance @ along / 2]], atol=1e-12)


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("rules", [*OPTIONS, *OTHERS], ids=named)
def test_the_gradient_of_the_potential_is_the_mean_update(rules, infinite):
    """On policy, with an entropy bonus; two contexts where there is a potential, else one. To 1e-9 (quadrature)."""
    rules = {"entropy_weight": 0.4, **rules}
    dynamics = "mean_field" if infinite else "finite_group"
    for bandit in ("prompts", "arms"):
        theta = PLACES[bandit][0]
        value = potential(learner(bandit, **rules), dynamics, theta)
        if value is not None:
            expected = by_hand.mean_update(setting(bandit, **rules), theta, theta, 0.6, infinite)
            gradient = jax.grad(value)(jnp.asarray(theta), 0.6)
            np.testing.assert_allclose(gradient, expected, atol=1e-9)
            return
    pytest.fail("no potential for one context either")


def slopes(bandit, theta, infinite, kl_weight, **rules):
    """(fresh, stale) [D, D] by central differences of the mean update by hand."""
    trained, theta, h = setting(bandit, **rules), np.asarray(theta, float), 1e-5
    parts = []
    for fresh in (True, False):
        columns = []
        for one in np.eye(len(theta)) * h:
            ends = [
                by_hand.mean_update(
                    trained, theta + s * one * fresh, theta + s * one * (not fresh), kl_weight, infinite
                )
                for s in (1, -1)
            ]
            columns.append((ends[0] - ends[1]) / (2 * h))
        parts.append(-np.stack(columns, axis=1))
    return parts


STIFF = {
    "entropy, k3": {"entropy_weight": 0.3, "kl_estimator": "k3", "estimator": "ratio"},
    "dapo, k3": {"advantage": "dapo", "kl_estimator": "k3", "estimator": "clipped"},
    "ddof, eps": {"advantage": "grpo", "options": {"advantage": {"eps": 0.3, "ddof": 1}}, "estimator": "uncorrected"},
    "frozen, entropy": {"entropy_weight": 0.3},
}


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("name", STIFF)
def test_fixed_point_and_stiffness_are_those_by_hand(name, infinite):
    """Two contexts: the mean update vanishes to 1e-9, its slopes are fresh and stale stiffness to 1e-7, and all three
    routes agree with their sum."""
    trained, dynamics = learner("prompts", **STIFF[name]), "mean_field" if infinite else "finite_group"
    point = find_fixed_point(trained, dynamics, 1.0)
    chosen = setting("prompts", **STIFF[name])
    np.testing.assert_allclose(by_hand.mean_update(chosen, point.theta, point.theta, 1.0, infinite), 0, atol=1e-9)
    report = measure_stiffness(trained, dynamics, 1.0, point)
    fresh, stale = (
        point.basis.T @ s @ point.basis for s in slopes("prompts", point.theta, infinite, 1.0, **STIFF[name])
    )
    np.testing.assert_allclose(report.fresh, fresh, atol=1e-7)
    np.testing.assert_allclose(report.stale, stale, atol=1e-7)
    whole = np.sort(np.linalg.eigvals(fresh + stale).real)[::-1]
    np.testing.assert_allclose(np.real(report.jacobian), whole, atol=1e-6)
    np.testing.assert_allclose(np.real(report.relaxation), whole, atol=1e-4)
    if report.hessian is not None:
        np.testing.assert_allclose(report.hessian, whole, atol=1e-6)
    assert (report.hessian is None) == (name == "dapo, k3" and not infinite)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("interval", [1, 4])
def test_the_noisy_state_of_a_block_in_closed_form(reuse, interval):
    """RMSprop on two arms, a block of N frozen gradients, y = eta N K/sqrt(v): with one batch for the block
    v = C 2/(2 - y), with N of them v = C (1 + y/(N (2 - y))). To 1e-5. Planted: one is not the other."""
    bandit = two_arm((0.9, 0.3))
    optimizer = Optimizer("rmsprop", (("decay", 0.999), ("eps", 1e-12)))
    trained = Learner(bandit, DrGRPO(), optimizer=optimizer, group_size=16, batch_reuse=reuse)
    point = find_fixed_point(trained, "finite_group", 0.5)
    along = np.array([1.0, -1.0]) / np.sqrt(2)
    stiffness = measure_stiffness(trained, "finite_group", 0.5, point).largest
    noise = np.asarray(group_moments(trained)(0.5, jnp.asarray(point.theta), jnp.asarray(point.theta)).covariance)
    per_arm = noise[0, 0]  # v of each logit; the mode's noise is twice that
    assert along @ noise @ along == pytest.approx(2 * per_arm, rel=1e-12)
    rate = 1.2 * np.sqrt(per_arm) / (interval * stiffness)

    def inflation(y, reused):
        return 2 / (2 - y) if reused else 1 + y / (interval * (2 - y))

    def at(reused):
        y = brentq(lambda y: y * np.sqrt(inflation(y, reused)) - 1.2, 1e-6, 2 - 1e-9)
        return inflation(y, reused), y

    state = noisy_state(trained, "finite_group", Hyper(rate, 0.0, interval, 0.5))
    expected, y = at(reuse)
    assert state.inflation == pytest.approx(expected, rel=1e-5)
    step = rate * interval / np.sqrt(expected * per_arm)
    position = step**2 * 2 * per_arm / (1 if reuse else interval) / (2 * y - y * y)
    assert along @ state.covariance @ along == pytest.approx(position, rel=1e-5)
    assert interval == 1 or abs(state.inflation / at(not reuse)[0] - 1) > 0.1
