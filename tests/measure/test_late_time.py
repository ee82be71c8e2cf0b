"""Late-time exponents of simulated curves without KL, and the curvature bound with its equality case."""

import jax.numpy as jnp
import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.bandits.contextual import contextual
from bandit_lab.grpo import GRPO, Learner
from bandit_lab.simulation import trajectories
from experiments.shared.measure.curvature import curvature_along_gradients, curvature_during_training
from experiments.shared.measure.late_time import late_exponent, late_rate

ARMS = two_arm((0.0, -1.0), kind="fixed")  # J = -(1 - p): the deficit keeps its digits


def deficit(trained, dynamics, steps, learning_rate):
    """1 - p at steps 0..T of the exact dynamics without KL."""
    grid = cells(learning_rate, kl_weight=0.0)
    return -trajectories(trained, dynamics, grid, steps=steps, dtype=np.float64)[0, 0]


@pytest.mark.parametrize(
    ("advantage", "rate", "steps", "exponent"), [("dr_grpo", 1.0, 20_000, -1), ("grpo", 0.5, 10_000, -2)]
)
def test_infinite_groups_approach_the_vertex_by_a_power_of_time(advantage, rate, steps, exponent):
    """Mean-only 1/(2 eta t), both logits being trained; standardised 4/(2 eta t)^2: exponents to 0.02, amplitudes to
    0.2 %."""
    curve = deficit(learner(advantage, ARMS), "mean_field", steps, rate)
    assert float(late_exponent(curve)) == pytest.approx(exponent, abs=0.02)
    assert curve[-1] * (2 * rate * steps) ** -exponent / exponent**2 == pytest.approx(1, abs=2e-3)


def test_finite_groups_cross_over_to_one_over_time():
    """G = 512: while G (1 - p) > 30 within 2 % of the infinite group; in the end exponent -1.00 +- 0.02 and amplitude
    1/(2 eta sqrt(G - 1) t). The amplitude of a std that divides by G - 1 (1/(sqrt(G) t)) is off by what it should be.
    """
    size, rate, steps = 8, 0.5, 10_000
    curve = deficit(learner("grpo", ARMS, group_size=size), "finite_group", steps, rate)
    assert float(late_exponent(curve)) == pytest.approx(-1, abs=0.02)
    assert curve[-1] * 2 * rate * np.sqrt(size - 1) * steps == pytest.approx(1, abs=2e-3)
    biased = learner("grpo", ARMS, group_size=size)
    biased = type(biased)(biased.bandit, GRPO(ddof=1), group_size=size)
    other = deficit(biased, "finite_group", steps, rate)
    assert other[-1] / curve[-1] == pytest.approx(np.sqrt(size / (size - 1)), rel=2e-3)
    large, infinite = (
        deficit(learner("grpo", ARMS, group_size=512), d, 400, 0.1) for d in ("finite_group", "mean_field")
    )
    early = 512 * infinite > 30
    assert np.sum(early) > 30
    assert np.max(np.abs(large[early] / infinite[early] - 1)) < 0.02
    assert large[-1] > 1.1 * infinite[-1]


def test_dropping_silent_groups_makes_it_exponential():
    """Rate 2 eta sqrt(G - 1)/G per update, 1e-6; the curve of the same groups kept is a power."""
    for size in (2, 8):
        curve = deficit(learner("dapo", ARMS, group_size=size), "finite_group", 400, 0.5)
        assert float(late_rate(curve)) == pytest.approx(np.sqrt(size - 1) / size, rel=1e-6)
        assert curve[-1] < 1e-25


@pytest.mark.parametrize("rewards", [(0.0, -1.0, -1.0), (0.0, -0.2, -0.5, -0.9), (0.0, -0.3, -0.3, -0.6, -1.0)])
def test_k_arms_without_standardisation(rewards):
    """eta t * suboptimality -> (K - 1)/K whatever the gaps; corrections fall like ln t / t."""
    trained = learner("dr_grpo", k_arm(rewards, kind="fixed"))
    curve = deficit(trained, "mean_field", 20_000, 2.0)
    assert float(late_exponent(curve)) == pytest.approx(-1, abs=0.02)
    arms = len(rewards)
    assert curve[-1] * 2.0 * 20_000 == pytest.approx((arms - 1) / arms, rel=5e-3)


def test_exponents_of_known_curves():
    steps = np.arange(1001.0)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(late_exponent(np.stack([steps**-1.0, 3 * steps**-2.5])), [-1, -2.5], rtol=1e-12)
    assert float(late_rate(np.exp(-0.03 * steps))) == pytest.approx(0.03, rel=1e-12)


def test_curvature_along_each_prompts_own_gradient():
    """Against second differences of every prompt's success along its own unit gradient, four prompts."""
    bandit = contextual(4, 3, overlap=0.4, seed=5)
    theta = np.random.default_rng(1).normal(size=bandit.initial_parameters.shape)
    success, second, bound = curvature_along_gradients(bandit, theta)

    def value(prompt, x):
        policy = np.exp(np.asarray(bandit.log_policy(jnp.asarray(x))))
        return np.sum(policy * np.asarray(bandit.law.means), axis=-1)[prompt]

    for prompt in range(4):
        slope = np.array([value(prompt, theta + h) - value(prompt, theta - h) for h in 1e-5 * np.eye(len(theta))])
        step = 1e-3 * slope / np.linalg.norm(slope)
        bend = (value(prompt, theta + step) - 2 * value(prompt, theta) + value(prompt, theta - step)) / 1e-6
        assert success[prompt] == pytest.approx(value(prompt, theta), rel=1e-12)
        assert second[prompt] == pytest.approx(bend, rel=1e-3, abs=1e-6)
        assert abs(second[prompt]) <= bound[prompt]


def test_curvature_during_training_is_that_of_the_policies_on_the_way():
    """At steps 0, 3 and 6 of the engine's run; the columns go step by step."""
    bandit = contextual(2, 3, overlap=0.4, seed=5)
    success, second, bound = curvature_during_training(bandit, 0.7, times=3, every=3)
    curve = trajectories(Learner(bandit), "mean_field", cells(0.7, kl_weight=0.0), steps=6, dtype=np.float64)[0, 0]
    np.testing.assert_allclose(success.reshape(3, 2).mean(1), curve[::3], rtol=1e-12)
    first = curvature_along_gradients(bandit, np.asarray(bandit.initial_parameters))
    np.testing.assert_allclose([column[:2] for column in (success, second, bound)], first, rtol=1e-12)
