"""The two-arm chain against sampled groups."""

import numpy as np
import pytest

from bandit_lab.theory.fixed_points import gap_drift
from bandit_lab.theory.gradient_noise import binary_covariance
from bandit_lab.theory.group_law import GroupLaw
from bandit_lab.theory.stiffness import BinarySignal
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
                shares = np.searchsorted(blurred, chain.grid + 0.025) / seeds
                assert np.abs(shares - below).max() < 0.015


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
