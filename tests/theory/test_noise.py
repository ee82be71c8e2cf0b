"""Gradient covariance in its limits and by sampling; stationary covariance by closed forms and by scipy."""

import by_hand
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from bandit_lab.theory.block_map import LinearLoop, ones_complement
from bandit_lab.theory.gradient_noise import (
    binary_covariance,
    centred_covariance,
    leading_covariance,
    logit_std,
    reward_atoms,
    reward_std,
)
from bandit_lab.theory.group_law import GroupLaw, binomial_weights
from bandit_lab.theory.stationary import lyapunov, small_step_variance, stationary_covariance
from bandit_lab.theory.stiffness import fisher
from experiments.shared.theory.reused_batch import reused_batch_variance

SUCCESS, POLICY = np.array([0.9, 0.4, 0.15]), np.array([0.2, 0.5, 0.3])
OUTCOMES = [[(1.0, p), (0.0, 1 - p)] for p in SUCCESS]


@pytest.mark.parametrize("rule", ["grpo", "dapo", "dr_grpo", "rloo", "tempered"])
def test_exact_covariance_tends_to_the_leading_one(rule):
    leading = leading_covariance(rule, reward_atoms(POLICY, OUTCOMES), 0.02)
    gaps = [
        np.abs(size * binary_covariance(GroupLaw(rule, size, 0.02), SUCCESS, POLICY) - leading).max()
        for size in (400, 800, 1600)
    ]
    order = np.polyfit(np.log([400, 800, 1600]), np.log(gaps), 1)[0]
    assert order == pytest.approx(-1.0, abs=0.05)


def test_without_a_baseline_the_leading_covariance_is_exact():
    leading = leading_covariance("none", reward_atoms(POLICY, OUTCOMES))
    for size in (1, 2, 5):
        np.testing.assert_allclose(
            binary_covariance(GroupLaw("none", size), SUCCESS, POLICY), leading / size, atol=1e-15
        )
    centred = leading_covariance("rloo", reward_atoms(POLICY, OUTCOMES))
    assert np.abs(leading / centred - 1).max() > 0.1


@pytest.mark.parametrize("rule", ["dr_grpo", "rloo"])
def test_centred_covariance_is_exact_for_any_rewards(rule):
    atoms = reward_atoms(POLICY, OUTCOMES)
    for size in (2, 5, 9):
        exact = binary_covariance(GroupLaw(rule, size), SUCCESS, POLICY)
        np.testing.assert_allclose(centred_covariance(rule, atoms, size), exact, atol=1e-15)


def sampled_covariance(rule, rewards, policy, size, groups, seed):
    """Covariance over sampled groups of noise-free arms and the standard error of each entry."""
    rng = np.random.default_rng(seed)
    actions = rng.choice(len(policy), p=policy, size=(groups, size))
    values = np.asarray(rewards)[actions]
    weights = by_hand.ADVANTAGES[rule](values, np.full(values.shape, 1 / size), size) / size
    g = np.stack([(weights * (actions == a)).sum(1) for a in range(len(policy))], 1)
    g = g - weights.sum(1, keepdims=True) * policy
    centred = g - g.mean(0)
    products = centred[:, :, None] * centred[:, None, :]
    return products.mean(0), products.std(0) / np.sqrt(groups)


@pytest.mark.parametrize(("rule", "size"), [("dr_grpo", 3), ("rloo", 3), ("dr_grpo", 16)])
def test_covariance_of_graded_rewards_by_sampling(rule, size):
    """n = 20,000 groups, seed 5, |z| <= 5 on 9 entries: false-alarm rate 1e-5. Planted: a factor of 2, G off by 1."""
    rewards = np.array([1.3, -0.2, 0.6])
    atoms = reward_atoms(POLICY, [[(r, 1.0)] for r in rewards])
    covariance, error = sampled_covariance(rule, rewards, POLICY, size, 20_000, 5)
    assert (np.abs(covariance - centred_covariance(rule, atoms, size)) <= 5 * error).all()
    assert (np.abs(covariance - 2 * centred_covariance(rule, atoms, size)) > 5 * error).any()
    if size == 3:
        assert (np.abs(covariance - centred_covariance(rule, atoms, size + 1)) > 5 * error).any()


def test_two_deterministic_arms_have_the_variance_of_the_group_std():
    """One-logit variance Var[s_k], (1-2p)^2/(4G) to leading order, 1/(8G^2) at p = 1/2."""
    for size in (2, 8, 64):
        for p in (0.5, 0.8):
            k = np.arange(size + 1)
            spread, weight = np.sqrt(k * (size - k)) / size, binomial_weights(size, p)
            variance = weight @ spread**2 - (weight @ spread) ** 2
            covariance = binary_covariance(GroupLaw("grpo", size), np.array([1.0, 0.0]), np.array([p, 1 - p]))
            np.testing.assert_allclose(covariance, variance * np.array([[1, -1], [-1, 1]]), atol=1e-15)
    big = binary_covariance(GroupLaw("grpo", 4000), np.array([1.0, 0.0]), np.array([0.5, 0.5]))[0, 0]
    assert big * 8 * 4000**2 == pytest.approx(1.0, rel=2e-3)
    off = binary_covariance(GroupLaw("grpo", 4000), np.array([1.0, 0.0]), np.array([0.8, 0.2]))[0, 0]
    assert off * 4 * 4000 / 0.6**2 == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_scalar_closed_forms(momentum):
    loop, noise = LinearLoop(0.0, 1.3, momentum), np.array([[0.7]])
    on_policy, kappa = stationary_covariance(loop, 0.2, 1, noise).covariance[0, 0], 0.2 * 1.3
    expected = 0.2**2 * 0.7 * (1 + momentum) / (kappa * (1 - momentum) * (2 * (1 + momentum) - kappa))
    assert on_policy == pytest.approx(expected, rel=1e-12)
    for interval in (1, 2, 5, 16):
        rate = 0.5 * (1 - momentum) / interval
        reused = stationary_covariance(loop, rate, interval, noise, batch_reuse=True).covariance[0, 0]
        assert reused == pytest.approx(reused_batch_variance(rate, 1.3, momentum, 0.7, interval), rel=1e-12)
        tiny = 1e-4 * (1 - momentum) / interval
        small = small_step_variance(tiny, 1.3, momentum, 0.7)
        fresh = stationary_covariance(loop, tiny, interval, noise)
        again = stationary_covariance(loop, tiny, interval, noise, batch_reuse=True)
        assert fresh.average[0, 0] == pytest.approx(small, rel=2e-3)
        assert again.covariance[0, 0] == pytest.approx(interval * small, rel=2e-3)


def test_doubling_solves_the_lyapunov_equation():
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(6, 6))
    matrix *= 0.98 / np.abs(np.linalg.eigvals(matrix)).max()
    source = rng.normal(size=(6, 6))
    source = source @ source.T
    np.testing.assert_allclose(lyapunov(matrix, source), solve_discrete_lyapunov(matrix, source), rtol=1e-9)


def test_variance_diverges_at_the_threshold_and_is_null_beyond():
    loop = LinearLoop(0.0, 1.0, 0.0)
    values = [stationary_covariance(loop, 2 / 4 * (1 - gap), 4, [[1.0]]).covariance[0, 0] for gap in (1e-2, 1e-3, 1e-4)]
    assert np.polyfit(np.log([1e-2, 1e-3, 1e-4]), np.log(values), 1)[0] == pytest.approx(-1.0, abs=0.02)
    beyond = stationary_covariance(loop, 0.51, 4, [[1.0]])
    assert beyond.covariance is None
    assert "threshold" in beyond.reason


def test_standard_deviations_of_logit_and_reward():
    policy, rewards = np.array([0.7, 0.3]), np.array([0.9, 0.1])
    covariance = 0.04 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert logit_std(policy, rewards, covariance) == pytest.approx(0.4)
    assert reward_std(policy, rewards, covariance) == pytest.approx(0.4 * 0.21 * 0.8)
    basis = ones_complement(2)
    assert logit_std(policy, rewards, basis.T @ covariance @ basis) == pytest.approx(0.4)
    step = 1e-6 * (fisher(policy) @ rewards)
    assert reward_std(policy, rewards, np.outer(step, step)) == pytest.approx(1e6 * step @ step, rel=1e-9)
    # Three arms, the second the best: along a small step of the logits, by differences.
    theta, step = np.log([0.5, 0.2, 0.3]), 1e-6 * np.array([0.3, 1.0, -0.4])
    odds = [weight[1] / (weight[0] + weight[2]) for weight in (np.exp(theta), np.exp(theta + step))]
    std = logit_std(np.exp(theta), np.array([0.1, 0.9, 0.4]), np.outer(step, step))
    assert std == pytest.approx(np.log(odds[1] / odds[0]), rel=1e-5)


def test_bad_noise_is_named():
    with pytest.raises(ValueError, match="noise"):
        stationary_covariance(LinearLoop(np.eye(2), np.eye(2)), 0.1, 1, [[1.0]])
    with pytest.raises(ValueError, match="batch_reuse"):
        stationary_covariance(LinearLoop(0.0, 1.0, 0.0, "lag"), 0.1, 2, [[1.0]], batch_reuse=True)
    with pytest.raises(ValueError, match="outcomes"):
        reward_atoms(POLICY, [[(1.0, 0.5)], [(1.0, 1.0)], [(1.0, 1.0)]])
