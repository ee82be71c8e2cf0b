"""Many variants in one program: the same numbers as each variant alone."""

import numpy as np

from bandit_lab import simulation
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import ADVANTAGES, ESTIMATORS, STALENESS, Hyper, Learner
from bandit_lab.measure.fixed_point import find_fixed_point
from bandit_lab.measure.stiffness import fresh_and_stale
from experiments.shared import many_variants as variants

PAIRS = (("grpo", "uncorrected"), ("dr_grpo", "clipped"), ("grpo", "tpo"))


def learners(staleness):
    bandit, rule = two_arm((0.9, 0.1)), STALENESS[staleness]()
    return tuple(Learner(bandit, ADVANTAGES[a](), ESTIMATORS[e](), rule, group_size=8, horizon=5) for a, e in PAIRS)


def test_rest_and_stiffness_are_those_of_root_finding_and_automatic_differentiation():
    """The gap to 1e-9; central differences with step 1e-5 to 1e-7. The next variant's numbers are caught."""
    several = learners("refresh")
    spectra = []
    for i, one in enumerate(several):
        point = find_fixed_point(one, "mean_field", 1.0)
        gap = variants.rest_gap(several, "mean_field", i, 1.0)
        assert abs(gap - (point.theta[0] - point.theta[1])) < 1e-9
        rates = variants.fresh_and_stale_rate(several, "mean_field", i, 1.0, gap)
        exact = [float(part[0, 0]) for part in fresh_and_stale(one, "mean_field", 1.0, point)]
        np.testing.assert_allclose(rates, exact, atol=1e-7)
        spectra.append(exact)
    assert np.min(np.abs(np.diff(spectra, axis=0))) > 1e-2


def test_a_variant_runs_as_the_engine_runs_it_alone():
    """Reward [1, T] of the second and third variant with a lag, to 1e-12; the wrong index is caught."""
    several = learners("lag")
    cells = Hyper(*(np.array([x]) for x in (0.7, 0.5, 3, 1.0)))
    curves = []
    for i in (1, 2):
        gaps = variants.run_gaps(several, "mean_field", i, cells, np.zeros(1), 40)
        curves.append(0.1 + 0.8 / (1 + np.exp(-gaps[0])))
        alone = simulation.run(
            several[i], "mean_field", cells, steps=40, dtype=np.float64, path="reference"
        ).reward_mean[0]
        np.testing.assert_allclose(curves[-1], alone, atol=1e-12)
    assert np.max(np.abs(curves[0] - curves[1])) > 1e-2


def test_noise_is_the_variance_of_the_sampled_gradient():
    """Mean-only advantage, G = 8, gap 0, against 200,000 groups drawn by NumPy (seed 0).

    n = 20,000 draws, relative standard error about 1.1 %: 6 % is five of them. The variance of grpo is caught.
    """
    several = learners("refresh")
    seen = variants.gap_noise(several, 1, 0.0, 0.0, 20_000)
    draw = np.random.default_rng(0)
    arms = draw.integers(0, 2, (200_000, 8))
    rewards = draw.random((200_000, 8)) < np.where(arms == 0, 0.9, 0.1)
    centred = rewards - rewards.mean(1, keepdims=True)
    by_hand = np.var(np.mean(centred * (1 - 2 * arms), axis=1))
    assert abs(seen / by_hand - 1) < 0.06
    assert abs(variants.gap_noise(several, 0, 0.0, 0.0, 20_000) / by_hand - 1) > 0.5
