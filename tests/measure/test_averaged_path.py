"""Means of runs over stretches of updates, and where they begin to grow, against one step after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.neural import neural
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import STALENESS, Hyper, Learner, init
from bandit_lab.measure.fixed_point import find_fixed_point
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.rollout import rollout
from experiments.shared.measure.averaged_path import (
    averaged_path,
    interval_threshold,
)
from experiments.shared.measure.leading import stiffness_along

BANDITS = [neural(2, 2, 2, width=3, seed=seed) for seed in (0, 1)]
HYPER = Hyper(np.array([0.5, 2.0]), 0.5, 3, 0.3)
TIMES, EVERY = 4, 6


@pytest.fixture(scope="module")
def plain():
    """All iterates [S, T * every, D] of the same runs, one step after another."""
    runs = []
    for bandit, rate in zip(BANDITS, HYPER.learning_rate, strict=True):
        learner, hyper = Learner(bandit, staleness=STALENESS["pipeline"]()), HYPER._replace(learning_rate=rate)
        start = init(learner, hyper, jnp.asarray(bandit.initial_parameters))
        look = {"observe": lambda stride: stride.after.theta}
        gradient = DYNAMICS["mean_field"](learner)
        runs.append(rollout(learner, gradient, hyper, jax.random.key(0), start, TIMES * EVERY, **look).seen)
    return np.array(runs)


@pytest.fixture(scope="module")
def learner():
    return Learner(BANDITS[0], staleness=STALENESS["pipeline"]())


def test_means_and_spreads_are_those_of_the_iterates(learner, plain):
    """Float64, to 1e-9. Single iterates, and the stretches one update later, are something else."""
    path = averaged_path(learner, "mean_field", BANDITS, HYPER, TIMES, EVERY)
    parts = plain.reshape(2, TIMES, EVERY, -1)
    mean = parts.mean(axis=2)
    np.testing.assert_allclose(path.mean, mean, rtol=1e-9, atol=1e-12)
    spread = np.sqrt(np.mean(np.sum((parts - mean[:, :, None]) ** 2, axis=-1), axis=2))
    np.testing.assert_allclose(path.spread, spread, rtol=1e-6)
    np.testing.assert_allclose(path.end, plain[:, -1], rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(mean - parts[:, :, -1])) > 1e-3
    assert np.max(np.abs(mean[:, :-1] - plain[:, 1 : 1 - EVERY].reshape(2, TIMES - 1, -1, mean.shape[-1]).mean(2))) > (
        1e-3
    )


def test_the_interval_threshold_at_rest_is_that_of_the_loop():
    """Model A without momentum: 2/(eta K), here 6.5; two runs at once; none where growth is never, or always, seen."""
    bandit = sequence(2, 2)
    learner = Learner(bandit)
    rest = find_fixed_point(learner, "mean_field", 0.3).rest
    stiffness = stiffness_along(learner, "mean_field", 0.3, rest[None])[0]

    def periods(intervals):
        hyper = Hyper(np.array([2 / (6.5 * stiffness), 2 / (9.2 * stiffness)]), 0.0, 1, 0.3)
        starts = np.stack([rest, rest])
        return interval_threshold(learner, "mean_field", [bandit] * 2, hyper, starts, intervals, 3, 1e-7)

    np.testing.assert_allclose(periods([4, 6, 8, 12]), [6.5, 9.2], rtol=1e-3)
    np.testing.assert_allclose(periods([8, 12]), [np.nan, 9.2], rtol=1e-3)
    assert np.all(np.isnan(periods([4, 6])))
