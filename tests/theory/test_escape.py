"""The two-arm chain against sampled groups, and the diffusion limit against the chain."""

from dataclasses import replace

import numpy as np
import pytest

from bandit_lab.theory.escape import (
    barrier,
    collapse_probability,
    diffusion,
    first_passage_time,
    kramers_rate,
    practical_learning_rate,
    staleness_bias,
    stationary_density,
)
from bandit_lab.theory.fixed_points import fixed_points
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.signal import BinarySignal, fisher
from bandit_lab.theory.stiffness import stiffness_split
from bandit_lab.theory.two_arm import gap_drift
from bandit_lab.theory.two_arm_chain import TwoArmChain

STIFFNESS = 0.13820496


def sampled_gap(size, rate, interval, blocks, seeds, seed, start=0.0, reuse=False, prompts=1):
    """Sampled GRPO groups on arms (0.9, 0.1), KL weight 1, frozen over blocks: gaps [blocks + 1, seeds]."""
    rng, x = np.random.default_rng(seed), np.full(seeds, start)
    history = [x]
    for _ in range(blocks):
        p, total = 1 / (1 + np.exp(-x)), np.zeros(seeds)
        draws = prompts if reuse else interval * prompts
        for _ in range(draws):
            first = rng.random((seeds, size)) < p[:, None]
            reward = (rng.random((seeds, size)) < np.where(first, 0.9, 0.1)).astype(float)
            spread = reward.std(1, keepdims=True)
            advantage = (reward - reward.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
            total += (advantage * np.where(first, 1.0, -1.0)).mean(1)
        x = x + rate * (total * interval / draws - interval * 2 * p * (1 - p) * x)
        history.append(x)
    return np.array(history)


@pytest.mark.parametrize(("reuse", "prompts"), [(False, 1), (True, 1), (False, 2)])
def test_one_block_against_sampled_groups(reuse, prompts):
    """20,000 seeds, seed 1, from gaps 0 and 4: mean within 5 standard errors, std within 3 %, distribution function
    within 0.015 (Dvoretzky: false alarm below 1e-3 together) once the sampled steps are smoothed as the grid smooths.

    Planted: one step fewer in the block is rejected.
    """
    seeds, rate, interval = 20_000, 1.0, 3
    rng = np.random.default_rng(0)
    for start in (0.0, 4.0):
        ends = sampled_gap(8, rate, interval, 1, seeds, 1, start, reuse, prompts)[-1]
        for steps, right in ((interval, True), (interval - 1, False)):
            chain = TwoArmChain((0.9, 0.1), GroupLaw("grpo", 8), 1.0, rate, steps, prompts, batch_reuse=reuse,
                                low=-8.0, high=14.0, spacing=0.05)  # fmt: skip
            law = chain.step_law(start)
            mean = law @ chain.grid
            close = abs(mean - ends.mean()) < 5 * ends.std() / np.sqrt(seeds)
            assert close == right
            if right:
                assert np.sqrt(law @ chain.grid**2 - mean**2) == pytest.approx(ends.std(), rel=0.03)
                blurred = np.sort(ends + 0.3 * rng.normal(size=seeds))
                weights = np.exp(-0.5 * ((chain.grid[:, None] - chain.grid) / 0.3) ** 2)
                below = np.cumsum(weights @ law) / (weights @ law).sum()
                found = np.searchsorted(blurred, chain.grid + 0.025) / seeds
                assert np.abs(found - below).max() < 0.015


def test_rows_have_the_exact_mean_and_variance():
    law, signal = GroupLaw("grpo", 16), BinarySignal(GroupLaw("grpo", 16), (0.9, 0.1))
    chain = TwoArmChain((0.9, 0.1), law, 1.0, 2.0, 4, low=-12.0, high=20.0, spacing=0.1)
    np.testing.assert_allclose(chain.kernel.sum(1), 1.0, rtol=1e-12)
    assert chain.kernel.min() > -1e-5
    for gap in (0.0, 1.0, 2.0, 3.0):
        i = round((gap - chain.low) / chain.spacing)
        x, row = chain.grid[i], chain.kernel[i]
        policy = np.array([chain.good_probability[i], 1 - chain.good_probability[i]])
        step = 8.0 * gap_drift(np.array([x]), signal, 0.0, 1.0)[0]
        signs = np.array([1.0, -1.0])
        variance = 4 * 4.0 * signs @ binary_covariance(law, signal.means, policy) @ signs
        mean = row @ (chain.grid - x)
        assert mean == pytest.approx(step, abs=1e-5)
        assert row @ (chain.grid - x) ** 2 - mean**2 == pytest.approx(variance, rel=1e-2)


def test_dead_policies_do_not_diffuse():
    chain = TwoArmChain((0.9, 0.1), GroupLaw("grpo", 16), 0.0, 1.0, 4, high=30.0, spacing=0.1)
    i = round((26.0 - chain.low) / chain.spacing)
    assert chain.kernel[i, i] == pytest.approx(1.0, abs=1e-7)


def test_kramers_and_first_passage_against_the_exact_operator():
    """Deterministic arms, G = 100, KL weight 1.55: two wells. The diffusion's rate within 40 % of the operator's,
    Kramers within a factor of 2, both fall with the barrier as the temperature is lowered."""
    law = GroupLaw("grpo", 100)
    signal = BinarySignal(law, (1.0, 0.0))
    well, top, far = (p.tilt for p in fixed_points(signal, np.array([0.5, 0.5]), 1.55))
    rates = []
    for rate in (1.0, 2.0):
        chain = TwoArmChain((1.0, 0.0), law, 1.55, rate, 1, low=-4.0, high=9.0, spacing=0.03)
        exact, quasi = chain.escape(chain.grid < far)
        process = diffusion(signal, 1.55, rate, gap=np.linspace(-6, 9, 3001))
        assert 1 / first_passage_time(process, well, far) == pytest.approx(exact, rel=0.4)
        assert 0.5 < kramers_rate(process, well, top) / exact < 2.0
        assert quasi[chain.grid < top].sum() > 0.9
        left = 1 - chain.absorbed(chain.grid < far, 3000, well)
        assert np.log(left[2000] / left[3000]) / 1000 == pytest.approx(exact, rel=0.02)
        rates.append((np.log(exact), barrier(process, well, top)))
    assert rates[0][0] - rates[1][0] == pytest.approx(rates[1][1] - rates[0][1], rel=0.35)


def test_stationary_density_of_the_diffusion_has_the_linear_variance():
    """Cold limit: the density's standard deviation is sqrt(b eta/(2 lambda)) with b per step."""
    signal = BinarySignal(GroupLaw("grpo", 256), (0.9, 0.1))
    process = diffusion(signal, 1.0, 0.01, gap=np.linspace(0.5, 4.0, 4001))
    density = stationary_density(process)
    mean = np.trapezoid(density * process.gap, process.gap)
    variance = np.trapezoid(density * (process.gap - mean) ** 2, process.gap)
    slope = np.interp(mean, process.gap, np.gradient(process.drift, process.gap))
    assert variance == pytest.approx(np.interp(mean, process.gap, process.spread) / (-2 * slope), rel=0.02)


def test_practical_threshold_rises_with_the_number_of_prompts():
    """More prompts are colder; the returned rate does collapse the stated share of runs, and half of it does not."""
    deterministic = 2 / (4 * STIFFNESS)
    rates = []
    for prompts in (1, 4):
        chain = TwoArmChain((0.9, 0.1), GroupLaw("grpo", 8), 1.0, 1.0, 4, prompts, low=-10.0, high=18.0, spacing=0.15)
        rates.append(practical_learning_rate(chain, deterministic, 4.6, 400, 0.3, tolerance=0.1))
    assert rates[0] < 0.8 * rates[1] < deterministic
    hot = replace(chain, learning_rate=1.1 * rates[1])
    cold = replace(chain, learning_rate=0.9 * rates[1])
    assert collapse_probability(cold, 4.6, 100) < 0.3 < collapse_probability(hot, 4.6, 100)


def test_staleness_bias_is_first_order_in_lag_times_learning_rate():
    """Error of the first-order bias against the drift itself falls with the square of the lag: order 2.00 +- 0.1."""
    signal, reference = BinarySignal(GroupLaw("grpo"), (0.9, 0.4, 0.1)), np.ones(3) / 3
    (point,) = fixed_points(signal, reference, 1.0)
    velocity, errors = 0.01 * np.array([1.0, -0.4, -0.6]), []
    split = stiffness_split(signal, point.policy, 1.0, "ratio")
    for lag in (1, 2, 4):
        rollout = np.exp(np.log(point.policy) - velocity * lag)
        rollout /= rollout.sum()
        stale = (signal.factor(rollout) - signal.factor(point.policy)) * fisher(point.policy) @ signal.means
        errors.append(np.abs(stale - staleness_bias(split, velocity, lag)).max())
    assert np.polyfit(np.log([1, 2, 4]), np.log(errors), 1)[0] == pytest.approx(2.0, abs=0.1)
