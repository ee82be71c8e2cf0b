"""Measured fluctuations of sampled runs against the discrete Lyapunov equation of the linear loop.

Runs start at the fixed point of their exact mean, forget that, and are recorded at every step. A variance is about the
common mean of all seeds and steps: one about each run's own would lose the slow part. Its error is a jackknife over
groups of seeds, whatever the correlation in time.
"""

from typing import NamedTuple

import numpy as np
import pytest
from settings import cells, learner, nightly_but

from bandit_lab import theory
from bandit_lab.bandits import k_arm
from bandit_lab.grpo import Learner
from bandit_lab.simulation import trajectories
from experiments.shared.readings import jackknife

BANDITS = {
    "two_arms": ((0.9, 0.2), (0.0, 0.4)),
    "five_arms": ((0.85, 0.7, 0.45, 0.3, 0.1), (0.0, 0.3, -0.2, 0.1, 0.4)),
}
KL_WEIGHT = 2.0
SETTINGS = [(interval, momentum) for interval in (1, 4, 16) for momentum in (0.0, 0.9)]
SIZES = (2, 4, 8, 16, 64, 256)
LARGEST = {"two_arms": 4e-3, "five_arms": 2e-3}
"""Variance of the log-odds at the smallest group: the nonlinear correction, which is linear in it, is not seen."""
GROUPS = 64
"""Of seeds that the jackknife leaves out in turn."""


class Case(NamedTuple):
    """One bandit, advantage and group size: what the theory needs, `frozen`, so that everything is stale."""

    rewards: np.ndarray
    policy: np.ndarray
    split: theory.Split
    noise: np.ndarray
    learner: Learner

    def loop(self, momentum):
        return theory.LinearLoop(*self.split.reduced(), momentum)

    def variances(self, rate, momentum, interval, reuse=False, noise_factor=1.0):
        """Of the expected reward, and with two arms of their log-odds: mean over the phases of a block."""
        noise = self.noise * noise_factor
        average = theory.stationary_covariance(self.loop(momentum), rate, interval, noise, reuse).average
        observed = (theory.reward_std, theory.logit_std)[: 1 + (len(self.policy) == 2)]
        return np.array([std(self.policy, self.rewards, average) ** 2 for std in observed])

    def relaxation(self, rate, momentum, interval):
        """Steps in which the slowest departure falls by e."""
        return -1 / np.log(theory.spectral_radius(self.loop(momentum), rate, interval, per_step=True))

    def threshold(self, momentum, interval):
        return theory.exact("refresh", interval, momentum, "heavy_ball").kappa / theory.largest_stiffness(self.split)

    def rate_for(self, variance, momentum, interval, share=0.15):
        """Learning rate at which the log-odds would have this variance, at most `share` of the threshold."""
        tiny = 1e-4 * (1 - momentum)
        average = theory.stationary_covariance(self.loop(momentum), tiny, interval, self.noise).average
        per_rate = theory.logit_std(self.policy, self.rewards, average) ** 2 / tiny
        return min(variance / per_rate, share * self.threshold(momentum, interval))


def case(bandit, advantage, size, **options) -> Case:
    rewards, reference = (np.array(column) for column in BANDITS[bandit])
    law, chance = theory.GroupLaw(advantage, size), np.exp(reference) / np.exp(reference).sum()
    signal = theory.BinarySignal(law, tuple(rewards))
    policy = theory.attracting_fixed_point(signal, chance, KL_WEIGHT).policy
    split = theory.stiffness_split(signal, policy, KL_WEIGHT, "frozen")
    noise = theory.reduce_matrix(theory.binary_covariance(law, rewards, policy))
    arms = k_arm(rewards.tolist(), reference_logits=reference.tolist())
    return Case(rewards, policy, split, noise, learner(advantage, arms, group_size=size, **options))


def measured(one, rates, settings=SETTINGS, seeds=4096, seed=0, path="auto"):
    """Variances [C, O] of a case at one learning rate per setting: burn-in 4 and window 2 relaxation times."""
    slowest = max(one.relaxation(r, m, n) for r, (n, m) in zip(rates, settings, strict=True))
    slowest = int(np.ceil(slowest / 16) * 16)
    grid = cells(np.array(rates), [m for _, m in settings], [n for n, _ in settings], KL_WEIGHT)
    initial, options = np.tile(np.log(one.policy), (len(settings), 1)), {"seeds": seeds, "seed": seed, "path": path}
    runs = trajectories(one.learner, "sampled", grid, steps=6 * slowest - 1, initial=initial, **options)
    observed = [runs[..., 4 * slowest :].astype(float) - one.policy @ one.rewards]
    if len(one.policy) == 2:
        chance = one.policy[0] + observed[0] / (one.rewards[0] - one.rewards[1])
        observed.append(np.log(chance / (1 - chance)) - np.log(one.policy[0] / one.policy[1]))
    departure = np.stack(observed, axis=-1)
    groups = departure.reshape(len(settings), GROUPS, -1, *departure.shape[2:])
    mean, square = (np.moveaxis((groups**power).mean(axis=(2, 3)), 1, 0) for power in (1, 2))
    return jackknife(lambda mean, square: square - mean**2, mean, square)


def predicted(one, rates, settings=SETTINGS, **options):
    return np.array([one.variances(r, m, n, **options) for r, (n, m) in zip(rates, settings, strict=True)])


def test_jackknife_is_exact_for_means_and_right_for_ratios():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 2))
    mean = jackknife(lambda m: m, x)
    np.testing.assert_allclose(mean.value, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(mean.error, x.std(0, ddof=1) / np.sqrt(50), rtol=1e-12)
    a, b = 2 + 0.1 * rng.normal(size=(2000, 50)), 1 + 0.1 * rng.normal(size=(2000, 50))
    ratios = [jackknife(lambda p, q: p / q, p, q) for p, q in zip(a, b, strict=True)]
    z = [(r.value - 2) / r.error for r in ratios]
    assert np.std(z) == pytest.approx(1, abs=5 / np.sqrt(2 * 2000) + 0.03)


CASES = [("two_arms", "fast"), ("two_arms", "reference"), ("five_arms", "fast")]


@pytest.mark.parametrize(("bandit", "path"), nightly_but(CASES[:2], CASES))
def test_stationary_variance_of_one_case(bandit, path):
    """GRPO, G = 8, six (N, mu): 4,096 seeds, |z| <= 4 on at most 12 numbers (false alarm < 1e-3).

    Planted: noise twice as large, and the noise of G - 1. The grid below takes the fast path.
    """
    one = case(bandit, "grpo", 8)
    rates = [one.rate_for(LARGEST[bandit], m, n) for n, m in SETTINGS]
    variance = measured(one, rates, path=path)
    z = (variance.value - predicted(one, rates)) / variance.error
    assert np.max(np.abs(z)) <= 4
    for factor in (2.0, 8 / 7):
        assert np.all(np.abs((variance.value - predicted(one, rates, noise_factor=factor)) / variance.error) > 4)


@pytest.mark.nightly
@pytest.mark.parametrize("bandit", BANDITS)
@pytest.mark.parametrize("advantage", ["grpo", "dr_grpo", "rloo"])
def test_stationary_variance_at_every_group_size(bandit, advantage):
    """G in {2 .. 256}, N in {1, 4, 16}, mu in {0, 0.9}; 4,096 seeds each, learning rate fixed over G.

    |z| <= 4 on at most 72 numbers: false alarm below 0.5 % per test. Planted: the noise of the infinite-group
    standardisation without its std term (twice the noise) and the noise of G + 1.
    """
    ends = [case(bandit, advantage, size) for size in (SIZES[0], SIZES[-1])]
    rates = [
        min(ends[0].rate_for(LARGEST[bandit], m, n), *(0.15 * one.threshold(m, n) for one in ends)) for n, m in SETTINGS
    ]
    away = []
    for size in SIZES:
        one = case(bandit, advantage, size)
        variance, expected = measured(one, rates, seed=size), predicted(one, rates)
        away.append((variance.value - expected) / variance.error)
        assert np.all(np.abs((variance.value - 2 * expected) / variance.error) > 4)
        off_by_one = predicted(one, rates, noise_factor=size / (size + 1))
        assert size > 4 or np.all(np.abs((variance.value - off_by_one) / variance.error) > 4)
    assert np.max(np.abs(away)) <= 4
    assert np.sqrt(np.mean(np.square(away))) < 1.25


@pytest.mark.slow
def test_reusing_a_batch_multiplies_the_temperature():
    """N in {4, 16}, mu in {0, 0.9}, G = 8, 4,096 seeds: |z| <= 4 on 8 numbers; at mu = 0 N times the variance of fresh
    samples to leading order. Planted: fresh samples at every step.
    """
    settings = [(n, m) for n in (4, 16) for m in (0.0, 0.9)]
    one = case("two_arms", "grpo", 8, batch_reuse=True)
    rates = [one.rate_for(LARGEST["two_arms"] / n, m, n, 0.03) for n, m in settings]
    variance = measured(one, rates, settings)
    expected, fresh = (predicted(one, rates, settings, reuse=reuse) for reuse in (True, False))
    assert np.max(np.abs(variance.value - expected) / variance.error) <= 4
    assert np.all(np.abs(variance.value - fresh) / variance.error > 4)
    for c, (n, m) in enumerate(settings):
        if m == 0:
            assert variance.value[c, 1] / fresh[c, 1] == pytest.approx(n, rel=0.08)


def test_variance_diverges_towards_the_threshold():
    """N = 4, mu = 0, G = 64, 2 prompts: learning rates of 0.3 to 0.9 of the threshold, |z| <= 4 on 8 numbers; the
    variance over its small-step value grows like 1/(1 - share). Planted: that small-step value.
    """
    one = case("two_arms", "dr_grpo", 64, prompts=2)
    one = one._replace(noise=one.noise / 2)
    settings, shares = [(4, 0.0)] * 4, np.array([0.3, 0.6, 0.8, 0.9])
    rates = shares * one.threshold(0.0, 4)
    variance, expected = measured(one, rates, settings, seeds=1024), predicted(one, rates, settings)
    np.testing.assert_array_less(np.abs(variance.value - expected) / variance.error, 4)
    growth = theory.early_warning(one.loop(0.0), one.threshold(0.0, 4), 4, one.noise, shares)
    small = expected[:, 1] / growth
    assert np.all(np.abs(variance.value[2:, 1] - small[2:]) / variance.error[2:, 1] > 4)
    assert np.all(np.diff(variance.value[:, 1] / small) > 0)
