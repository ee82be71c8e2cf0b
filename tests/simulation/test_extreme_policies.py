"""KL terms where a probability is smaller than its type can hold: both paths against formulas in long double."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner, nightly_but, thinned

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import KL_ESTIMATORS, Clipped, Ratio, Uncorrected, policy_gradient
from bandit_lab.simulation import drift_of, run

GAPS = np.array([0.5, 5.0, 30.0, 84.0, 86.0, 88.0, 89.0, 100.0, 300.0, 708.0, 710.0, 746.0, 1000.0])
REFERENCE = (0.0, 0.4, -0.3)
TWO = two_arm((0.9, 0.1), reference_logits=REFERENCE[:2], kind="fixed")
THREE = k_arm((0.9, 0.1, 0.1), reference_logits=REFERENCE, kind="fixed")
ARMS = {"two": TWO, "three": THREE}
SAMPLED = [name for name in KL_ESTIMATORS if KL_ESTIMATORS[name].sampled]
wide = np.longdouble


def log_softmax(theta):
    theta = np.asarray(theta, wide)
    return theta - np.log(np.sum(np.exp(theta - theta.max()))) - theta.max()


def kl_term(name, theta, reference, share=None):
    """What the KL term descends [K], in long double. share: of each arm among the drawn ones; None: its probability."""
    log_policy, log_reference = log_softmax(theta), log_softmax(reference)
    policy, distance = np.exp(log_policy), log_policy - log_reference
    slope = distance if name == "exact" else 1 - np.exp(-distance)
    held = (policy if share is None else np.asarray(share, wide)) * slope
    return held - policy * held.sum()


def start(arms, gap):
    """Logits at which arm 0 leads by `gap`."""
    return np.array([gap, 0.0, 0.3][:arms])


def reward_after_a_step(name, bandit, gap, eta, drawn):
    """Expected reward one step later, in long double. drawn: arm 0 alone; else groups are infinite."""
    theta, means = np.asarray(start(len(bandit.law.means[0]), gap), wide), np.asarray(bandit.law.means[0], wide)
    policy = np.exp(log_softmax(theta))
    signal = 0 if drawn else policy * (means - policy @ means)
    held = kl_term(name, theta, REFERENCE[: len(theta)], np.eye(len(theta))[0] if drawn else None)
    return np.exp(log_softmax(theta + wide(eta) * (signal - held))) @ means


@pytest.mark.parametrize(("name", "dtype"), thinned(KL_ESTIMATORS, [np.float32, np.float64]))
def test_the_term_is_right_at_every_gap_where_it_can_be_held(name, dtype, compiled_quickly):
    """Infinite groups: everywhere. Drawn arms: an arm not drawn counts 0, a drawn one is right up to gap 80."""
    bandit = jax.tree.map(lambda x: x.astype(dtype), THREE)
    trained = learner("dr_grpo", bandit, kl_estimator=name, group_size=2)
    drift = jax.jit(drift_of(trained, "mean_field"))
    drawn = jax.jit(lambda x, share: -policy_gradient(trained, 1.0, x, x, jnp.zeros((1, 3), dtype), share[None]))
    for gap in GAPS:
        theta = start(3, gap).astype(dtype)
        term = np.asarray(drift(theta, theta, dtype(0)) - drift(theta, theta, dtype(1)))
        tolerance = 4 * np.finfo(dtype).eps * max(1, gap)
        np.testing.assert_allclose(term, kl_term(name, theta, REFERENCE), rtol=0, atol=tolerance)
        for share in ((1, 0, 0), (0.5, 0.5, 0)) if name in SAMPLED else ():
            term = np.asarray(drawn(theta, np.array(share, dtype)))
            assert np.all(np.isfinite(term)), (gap, share)
            expected = kl_term(name, theta, REFERENCE, share)
            if share[1] == 0 or gap < (80 if dtype == np.float32 else 700):
                np.testing.assert_allclose(term, expected, rtol=2 * tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "dtype"), thinned(KL_ESTIMATORS, [np.float32, np.float64]))
def test_both_paths_make_the_right_step_in_infinite_groups(name, dtype, compiled_quickly):
    """From every gap, with learning rate 1 and with that which brings `k3` back to a gap of about 2."""
    trained = learner("dr_grpo", THREE, kl_estimator=name)
    reference = np.exp(log_softmax(REFERENCE)).astype(float)
    rates = np.concatenate([np.ones(len(GAPS)), np.maximum(GAPS - 2, 1e-3) / (1 - reference[0] + reference[1])])
    initial = np.array([start(3, gap) for gap in [*GAPS, *GAPS]])
    expected = [
        float(reward_after_a_step(name, THREE, x[0], dtype(eta), False)) for x, eta in zip(initial, rates, strict=True)
    ]
    for path in ("fast", "reference"):
        curves = run(
            trained, "mean_field", cells(rates), steps=1, dtype=dtype, initial=initial, path=path, summary=False
        )
        np.testing.assert_allclose(curves.reward_mean[:, 1], expected, atol=1e-12 if dtype == np.float64 else 3e-4)


@pytest.mark.parametrize(
    ("arms", "dtype"),
    nightly_but([("three", np.float32), ("two", np.float64)], product(ARMS, [np.float32, np.float64])),
)
def test_an_arm_that_was_not_drawn_is_not_pulled(arms, dtype, compiled_quickly):
    """Gaps from 84 on: every draw is arm 0 (another one has a chance below 1e-34), its reward has no spread."""
    bandit = ARMS[arms]
    trained = learner("dr_grpo", bandit, kl_estimator="k3", group_size=4)
    gaps = GAPS[GAPS > 80]
    initial = np.array([start(len(bandit.law.means[0]), gap) for gap in gaps])
    grid = cells(np.full(len(gaps), 1.0))
    expected = [float(reward_after_a_step("k3", bandit, gap, 1.0, True)) for gap in gaps]
    for path in ("fast", "reference"):
        moved = run(trained, "sampled", grid, steps=1, seeds=2, dtype=dtype, initial=initial, path=path, summary=False)
        np.testing.assert_allclose(moved.reward_mean[:, 1], expected, atol=1e-6)
        np.testing.assert_allclose(moved.reward_variance[:, 1], 0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "dynamics", "dtype"),
    nightly_but(
        [("exact", "mean_field", np.float32), ("k3", "mean_field", np.float64), ("k3", "sampled", np.float32)],
        [("exact", "mean_field", np.float32), *product(["k3"], ["sampled", "mean_field"], [np.float32, np.float64])],
    ),
)
def test_no_gap_from_0_to_1000_makes_a_number_that_is_not_finite(name, dynamics, dtype, compiled_quickly):
    """Old actions meet the current policy (a lag of 2), so that an arm is drawn and then has become impossible."""
    gaps = np.linspace(0, 1000, 126)
    initial, grid = np.array([start(3, gap) for gap in gaps]), cells(np.full(len(gaps), 30.0), 0.5, 2, 1.0)
    trained = learner("dr_grpo", THREE, "lag", kl_estimator=name, estimator=Uncorrected(), group_size=4, horizon=2)
    for path in ("fast", "reference"):
        curves = run(trained, dynamics, grid, steps=6, dtype=dtype, initial=initial, path=path)
        assert np.all(np.isfinite(curves.reward_mean)), path
        assert np.all(curves.summary.finite), path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", [Ratio(), Clipped(), Uncorrected()])
def test_an_arm_that_the_acting_policy_never_plays_counts_as_it_does_in_the_limit(estimator, dtype, compiled_quickly):
    """pi_old(k) ratio(k) is pi(k), also where the ratio is above what its type holds. Mean field, no KL term."""
    bandit = jax.tree.map(lambda x: x.astype(dtype), TWO)
    drift = jax.jit(drift_of(learner("dr_grpo", bandit, estimator=estimator), "mean_field"))
    for gap in GAPS:
        acted, now = np.array([gap, 0], wide), np.array([0, 0.5], wide)
        old, policy = np.exp(log_softmax(acted)), np.exp(log_softmax(now))
        advantage = np.array([0.9, 0.1], wide) - old @ np.array([0.9, 0.1], wide)
        ratio = policy / old
        weight = {"Ratio": ratio, "Uncorrected": 1 + 0 * ratio}.get(type(estimator).__name__)
        if weight is None:
            flat = ((advantage > 0) & (ratio > 1.2)) | ((advantage < 0) & (ratio < 0.8))
            weight = np.where(flat, 0, ratio)
        signal = old * weight * advantage
        expected = signal - policy * signal.sum()
        update = drift(now.astype(dtype), acted.astype(dtype), dtype(0))
        np.testing.assert_allclose(
            np.asarray(update), expected.astype(float), rtol=0, atol=4e-6 if dtype == np.float32 else 1e-13
        )
