"""Runs that noise drives out of the basin of their fixed point, below the deterministic threshold."""

import numpy as np
import pytest
from escape_of_runs import Escape, measure_escape
from settings import cells, learner, nightly_but

from bandit_lab import theory
from bandit_lab.bandits import two_arm
from bandit_lab.measure.outcome import sampled_boundary
from bandit_lab.theory.escape import practical_learning_rate
from bandit_lab.theory.two_arm_chain import TwoArmChain

STIFFNESS = 0.13820496  # two Bernoulli arms (0.9, 0.1), GRPO, KL weight 1, infinite groups
GAP = 2.02640  # log-odds at that fixed point


def chain(size, rate, interval, prompts=1, spacing=0.1, **grid):
    """The exact chain of those arms."""
    law = theory.GroupLaw("grpo", size)
    return TwoArmChain((0.9, 0.1), law, 1.0, rate, interval, prompts, spacing=spacing, **grid)


def watched(size, rates, interval, low, high, steps, seeds=1024, prompts=1, start=GAP):
    """Escape of the sampled runs from the infinite-group fixed point."""
    trained = learner("grpo", two_arm((0.9, 0.1)), group_size=size, prompts=prompts)
    grid = cells(rates, 0.0, interval)
    theta = np.tile([start / 2, -start / 2], (len(grid.learning_rate), 1))
    return measure_escape(trained, grid, theta, low, high, steps=steps, seeds=seeds)


def test_rate_and_survival_of_known_exit_times():
    """Exits at step 3, 5, 5 and none in 10 steps; a hazard of 2 in (7 - 4) steps at risk after step 4."""
    escape = Escape(np.array([[3, 5, 5, 11]]), np.zeros((1, 4)), np.zeros((1, 4)), 10)
    np.testing.assert_allclose(escape.survival().value[0], [1, 1, 1, 0.75, 0.75] + 6 * [0.25])
    rate = escape.rate(4)
    assert rate.value[0] == pytest.approx(2 / (1 + 1 + 6))
    assert rate.error[0] == pytest.approx(rate.value[0] / np.sqrt(2))
    # Geometric exits: n = 20,000, seed 0, |z| <= 5; a rate that counts one step less at risk for each run is caught.
    first = np.random.default_rng(0).geometric(0.05, size=(1, 20_000))
    known = Escape(np.minimum(first, 101), first * 0.0, first * 0.0, 100).rate(0)
    assert abs(known.value[0] - 0.05) <= 5 * known.error[0]
    assert abs(known.value[0] / (1 - known.value[0]) - 0.05) > 5 * known.error[0]


def test_survival_against_the_exact_chain():
    """G = 16, N = 4, kappa N = 1.5 (threshold 2): 2,048 seeds, share of runs inside (-2, 6) after 10 to 60 blocks
    within 5 standard errors and 1 % of the grid. Planted: N = 3 at the same learning rate.
    """
    rate = 1.5 / (4 * STIFFNESS)
    escape = watched(16, rate, 4, -2.025, 6.025, 240, seeds=2048)
    survival = escape.survival()
    blocks = np.array([10, 20, 40, 60])
    for interval, right in ((4, True), (3, False)):
        exact = chain(16, rate, interval, spacing=0.05, low=-12.0, high=20.0)
        inside = (exact.grid > -2.01) & (exact.grid < 6.01)
        expected = 1 - exact.absorbed(inside, 60, GAP)[blocks]
        close = np.abs(survival.value[0, 4 * blocks] - expected) <= 5 * survival.error[0, 4 * blocks] + 0.01
        assert bool(np.all(close)) == right
    rate_of_exit = escape.rate(80)
    exact = chain(16, rate, 4, spacing=0.05, low=-12.0, high=20.0)
    per_step = exact.escape((exact.grid > -2.01) & (exact.grid < 6.01))[0] / 4
    assert abs(rate_of_exit.value[0] - per_step) <= 4 * rate_of_exit.error[0] + 0.03 * per_step


@pytest.mark.slow
@pytest.mark.parametrize(("size", "expected"), nightly_but([(16, 0.987)], [(16, 0.987), (64, 0.922), (256, 0.890)]))
def test_hot_runs_collapse_below_the_threshold(size, expected):
    """kappa N = 1.5 of 2, N = 4, 1,024 seeds: mean probability of the good arm over the last half of 2,000 steps.

    Against the exact chain within 5 standard errors and 0.001 of the grid; the fixed point of the mean (0.8835 for
    infinite groups) is excluded for G = 16 and 64.
    """
    rate = 1.5 / (4 * STIFFNESS)
    late = watched(size, rate, 4, -np.inf, np.inf, 2000).late_probability[0]
    error = late.std() / np.sqrt(len(late))
    exact = chain(size, rate, 4).mean_probability(500, 250, GAP)
    assert abs(late.mean() - exact) <= 5 * error + 1e-3
    assert late.mean() == pytest.approx(expected, abs=0.006)
    assert abs(late.mean() - 0.8835) > (0.03 if size <= 64 else 0.002)


@pytest.mark.nightly
@pytest.mark.parametrize(("size", "prompts", "interval"), [(8, 1, 4), (8, 4, 4), (32, 1, 4), (8, 1, 1)])
def test_practical_boundary(size, prompts, interval):
    """Learning rate at which 30 % of the runs stand collapsed (log-odds > 4.6) after 400 steps, 1,024 seeds.

    Interpolated between four learning rates around the chain's prediction: within 8 %, and well below the deterministic
    threshold. Planted: the prediction for four times as many prompts.
    """
    deterministic = 2 / (interval * STIFFNESS)

    def boundary(prompts):
        exact = chain(size, 1.0, interval, prompts, spacing=0.15, low=-10.0, high=18.0)
        return practical_learning_rate(exact, deterministic, 4.6, 400, 0.3, tolerance=0.03)

    predicted = boundary(prompts)
    rates = predicted * np.array([0.7, 0.9, 1.1, 1.3])
    share = np.mean(watched(size, rates, interval, -np.inf, np.inf, 400, prompts=prompts, start=0.0).final_gap > 4.6, 1)
    found = sampled_boundary(rates, share[None], 0.3)[0]
    assert found == pytest.approx(predicted, rel=0.08)
    assert found < 0.8 * deterministic
    colder = boundary(4 * prompts)
    assert colder is None or abs(found / colder - 1) > 0.08
