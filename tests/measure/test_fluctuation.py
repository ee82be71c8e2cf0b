"""Measured fluctuations of sampled runs against the discrete Lyapunov equation of the linear loop."""

import numpy as np
import pytest
from fluctuation_of_runs import measure_fluctuation, pooled
from noise_plan import BANDITS, SETTINGS, case, plan
from settings import cells, learner, nightly_but

from bandit_lab import theory
from bandit_lab.bandits import two_arm
from experiments.shared.readings import jackknife

SIZES = (2, 4, 8, 16, 64, 256)
GRID_ADVANTAGES = ("grpo", "dr_grpo", "rloo")
LARGEST = {"two_arms": 4e-3, "five_arms": 2e-3}
"""Variance of the log-odds at the smallest group; small enough by `test_halving_the_learning_rate_moves_nothing`."""


def ar1(seeds, steps, decay, seed=0):
    """Stationary AR(1) series of unit variance [seeds, steps]."""
    rng = np.random.default_rng(seed)
    series = np.empty((seeds, steps))
    series[:, 0] = rng.normal(size=seeds)
    for t in range(1, steps):
        series[:, t] = decay * series[:, t - 1] + np.sqrt(1 - decay**2) * rng.normal(size=seeds)
    return series


def test_estimators_recover_a_known_process():
    """AR(1), unit variance, decay 0.8, mean 0.3: n = 1,024 x 256, seed 0, |z| <= 5 on both numbers (false alarm 1e-6).

    Planted: a variance about each run's own mean.
    """
    series = ar1(1024, 256, 0.8)
    found = pooled([series[None, :700, :, None] + 0.3, series[None, 700:, :, None] + 0.3])
    shift, variance, own = found.shift(), found.variance(), series.var(axis=1)
    assert abs(shift.value[0, 0] - 0.3) <= 5 * shift.error[0, 0]
    assert abs(variance.value[0, 0] - 1) <= 5 * variance.error[0, 0]
    assert abs(own.mean() - 1) > 5 * own.std() / np.sqrt(1024)


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


def measured(one, rates, settings=SETTINGS, window=2, seeds=4096, seed=0, **options):
    """Fluctuation of a case at one learning rate per setting, burn-in 4 and window 2 relaxation times."""
    grid, fixed, slowest = plan(one, rates, settings)
    return measure_fluctuation(
        one.learner, grid, fixed, burn_in=4 * slowest, steps=window * slowest, seeds=seeds, seed=seed, **options
    )


def predicted(one, rates, settings=SETTINGS, **options):
    """Variances [C, O]."""
    return np.array([one.variances(r, m, n, **options) for r, (n, m) in zip(rates, settings, strict=True)])


def rates_for(bandit, advantage):
    """One learning rate per setting, the same for all group sizes: LARGEST at the smallest, 15 % of threshold."""
    sizes = [case(bandit, advantage, size) for size in (SIZES[0], SIZES[-1])]
    return [
        min(sizes[0].rate_for(LARGEST[bandit], m, n), *(0.15 * one.threshold(m, n) for one in sizes))
        for n, m in SETTINGS
    ]


@pytest.mark.parametrize(
    ("bandit", "path"),
    nightly_but(
        [("two_arms", "fast"), ("two_arms", "reference")],
        [("two_arms", "fast"), ("two_arms", "reference"), ("five_arms", "reference")],
    ),
)
def test_stationary_variance_of_one_case(bandit, path):
    """GRPO, G = 8, six (N, mu), two observables: 4,096 seeds, |z| <= 4 on 12 numbers (false alarm < 1e-3).

    Planted: noise twice as large, and the noise of G - 1. The grid below takes the fast path.
    """
    one = case(bandit, "grpo", 8)
    rates = [one.rate_for(LARGEST[bandit], m, n) for n, m in SETTINGS]
    variance = measured(one, rates, path=path).variance()
    z = (variance.value - predicted(one, rates)) / variance.error
    assert np.max(np.abs(z)) <= 4
    for factor in (2.0, 8 / 7):
        assert np.all(np.abs((variance.value - predicted(one, rates, noise_factor=factor)) / variance.error) > 4)


@pytest.mark.parametrize("bandit", nightly_but(["five_arms"], BANDITS))
def test_both_paths_record_the_same_states(bandit):
    """One update from the fixed point, which every path makes from the same batch law: over 8,192 seeds mean and
    standard deviation of both observables after it agree within 4.5 errors (4 numbers, false alarm < 3e-5 each).

    A record that starts one step early has no fluctuation at all; the value at rest is the same number to float32.
    """
    one, found = case(bandit, "grpo", 8), {}
    grid, fixed, _ = plan(one, [0.05] * len(SETTINGS))
    for path in ("fast", "reference"):
        rest, moved = (
            measure_fluctuation(one.learner, grid, fixed, burn_in=b, steps=1, seeds=8192, path=path) for b in (0, 1)
        )
        assert np.max(np.abs(rest.mean)) < 1e-6
        found[path] = moved
    fast, reference = found["fast"], found["reference"]
    for f, r in ((fast.shift(), reference.shift()), (fast.variance(), reference.variance())):
        assert np.all(f.error > 0)
        assert np.max(np.abs(f.value - r.value) / np.hypot(f.error, r.error)) <= 4.5


@pytest.mark.nightly
@pytest.mark.parametrize("bandit", BANDITS)
@pytest.mark.parametrize("advantage", GRID_ADVANTAGES)
def test_stationary_variance_at_every_group_size(bandit, advantage):
    """G in {2 .. 256}, N in {1, 4, 16}, mu in {0, 0.9}; 4,096 seeds each, learning rate fixed over G.

    |z| <= 4 on 72 numbers of two correlated observables: false alarm below 0.5 % per test. Planted: the noise of the
    infinite-group standardisation without its std term (twice the noise) and the noise of G + 1.
    """
    rates = rates_for(bandit, advantage)
    values, errors, expected, off_by_one = [], [], [], []
    for size in SIZES:
        one = case(bandit, advantage, size)
        variance = measured(one, rates, seed=size).variance()
        values.append(variance.value)
        errors.append(variance.error)
        expected.append(predicted(one, rates))
        off_by_one.append(predicted(one, rates, noise_factor=size / (size + 1)))
    values, errors, expected = np.array(values), np.array(errors), np.array(expected)
    z = (values - expected) / errors
    assert np.max(np.abs(z)) <= 4
    assert np.sqrt(np.mean(z**2)) < 1.25
    assert np.all(np.abs((values - 2 * expected) / errors) > 4)
    assert np.all(np.abs((values - np.array(off_by_one)) / errors)[:2] > 4)


@pytest.mark.nightly
@pytest.mark.parametrize("bandit", BANDITS)
@pytest.mark.parametrize("advantage", GRID_ADVANTAGES)
def test_halving_the_learning_rate_moves_nothing(bandit, advantage):
    """The nonlinear correction is linear in the variance: at 4 times the learning rate (G = 2, the hottest) it is seen,
    or bounded; an eighth of it, what halving would move, is below one standard error of the test above.
    """
    one = case(bandit, advantage, 2)
    rates = rates_for(bandit, advantage)
    usual = measured(one, rates).variance()
    hot = [min(4 * r, 0.4 * one.threshold(m, n)) for r, (n, m) in zip(rates, SETTINGS, strict=True)]
    factor = np.array(hot) / np.array(rates)
    variance = measured(one, hot).variance()
    excess = np.abs(variance.value / predicted(one, hot) - 1) + 2 * variance.error / variance.value
    assert np.all(excess / factor[:, None] / 2 < usual.error / usual.value)


@pytest.mark.slow
@pytest.mark.parametrize("bandit", nightly_but(["two_arms"], BANDITS))
def test_reusing_a_batch_multiplies_the_temperature(bandit):
    """N in {4, 16}, mu in {0, 0.9}, G = 8, 4,096 seeds: |z| <= 4 on 16 numbers; at mu = 0 N times the variance of fresh
    samples to leading order. Planted: fresh samples at every step.
    """
    settings = [(n, m) for n in (4, 16) for m in (0.0, 0.9)]
    one = case(bandit, "grpo", 8, batch_reuse=True)
    rates = [one.rate_for(LARGEST[bandit] / n, m, n, 0.03) for n, m in settings]
    variance = measured(one, rates, settings).variance()
    expected = predicted(one, rates, settings, reuse=True)
    assert np.max(np.abs(variance.value - expected) / variance.error) <= 4
    fresh = predicted(one, rates, settings)
    assert np.all(np.abs(variance.value - fresh) / variance.error > 4)
    for c, (n, m) in enumerate(settings):
        if m == 0:
            assert variance.value[c, 0] / fresh[c, 0] == pytest.approx(n, rel=0.08)


def test_variance_diverges_towards_the_threshold():
    """N = 4, mu = 0, G = 64, 2 prompts: learning rates of 0.3 to 0.9 of the threshold, |z| <= 4 on 8 numbers; the
    variance over its small-step value grows like 1/(1 - share). Planted: that small-step value.
    """
    one = case("two_arms", "dr_grpo", 64, prompts=2)
    one = one._replace(noise=one.noise / 2)
    settings = [(4, 0.0)] * 4
    shares = np.array([0.3, 0.6, 0.8, 0.9])
    rates = shares * one.threshold(0.0, 4)
    variance = measured(one, rates, settings, seeds=1024).variance()
    expected = predicted(one, rates, settings)
    np.testing.assert_array_less(np.abs(variance.value - expected) / variance.error, 4)
    growth = theory.early_warning(one.loop(0.0), one.threshold(0.0, 4), 4, one.noise, shares)
    small = expected[:, 0] / growth
    assert np.all(np.abs(variance.value[2:, 0] - small[2:]) / variance.error[2:, 0] > 4)
    assert np.all(np.diff(variance.value[:, 0] / small) > 0)


def half(size, **options):
    """Two fixed arms, GRPO, reference chosen so that the finite-group fixed point is p = 1/2; predicted variance."""
    law = theory.GroupLaw("grpo", size)
    signal = theory.BinarySignal(law, (1.0, 0.0))
    policy, means = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    gap = -signal.factor(policy) / 2.0  # KL weight 2 balances the tilt h = beta (theta - theta_ref)
    split = theory.stiffness_split(signal, policy, 2.0, "frozen")
    noise = theory.reduce_matrix(theory.binary_covariance(law, means, policy))
    bandit = two_arm((1.0, 0.0), reference_logits=(gap / 2, -gap / 2))
    return split, noise, learner("grpo", bandit, group_size=size, **options)


def test_variance_falls_as_the_square_of_the_group_size_at_one_half():
    """Two fixed arms at p* = 1/2: G in {32, 64, 128}, 4,096 seeds, |z| <= 4 against the exact finite-G noise, slope of
    ln variance -2.0 +- 0.1. (It is steeper below: -2.6 from 8 to 16.)
    Planted: the 1/G law of every other p.
    """
    sizes, values, errors, expected, rate = np.array([32, 64, 128]), [], [], [], 0.05
    for size in sizes:
        split, noise, trained = half(int(size))
        assert theory.largest_stiffness(split) == pytest.approx(1)
        loop = theory.LinearLoop(*split.reduced(), 0.0, "refresh")
        expected.append(2 * theory.stationary_covariance(loop, rate, 1, noise).average[0, 0])
        variance = measure_fluctuation(
            trained, cells(rate, 0.0, 1, 2.0), np.zeros((1, 2)), burn_in=100, steps=60, seed=int(size)
        ).variance()
        values.append(variance.value[0, 0])
        errors.append(variance.error[0, 0])
    values, errors, expected = np.array(values), np.array(errors), np.array(expected)
    assert np.max(np.abs(values - expected) / errors) <= 4
    assert np.polyfit(np.log(sizes), np.log(values), 1)[0] == pytest.approx(-2, abs=0.1)
    assert values[-1] + 4 * errors[-1] < values[0] / 4
