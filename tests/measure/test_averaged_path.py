"""Means of runs over stretches of updates, and stiffness and growth along them, against one step after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bandit_lab.bandits.neural import neural
from bandit_lab.bandits.sequence import sequence
from bandit_lab.grpo import STALENESS, Hyper, Learner, Optimizer, init
from bandit_lab.measure.fixed_point import find_fixed_point
from bandit_lab.simulation import DYNAMICS, drift_of
from bandit_lab.simulation.rollout import rollout
from experiments.shared.measure.averaged_path import (
    averaged_path,
    growth_per_block,
    interval_threshold,
    stiffness_of_paths,
)
from experiments.shared.measure.leading import stiffness_along

BANDITS = [neural(2, 2, 2, width=3, seed=seed) for seed in (0, 1)]
HYPER = Hyper(np.array([0.5, 2.0]), 0.5, 3, 0.3)
TIMES, EVERY = 4, 6
KEY = jax.random.key(0)


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
    found = averaged_path(learner, "mean_field", BANDITS, HYPER, TIMES, EVERY)
    parts = plain.reshape(2, TIMES, EVERY, -1)
    mean = parts.mean(axis=2)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-12)
    spread = np.sqrt(np.mean(np.sum((parts - mean[:, :, None]) ** 2, axis=-1), axis=2))
    np.testing.assert_allclose(found.spread, spread, rtol=1e-6)
    np.testing.assert_allclose(found.end, plain[:, -1], rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(mean - parts[:, :, -1])) > 1e-3
    assert np.max(np.abs(mean[:, :-1] - plain[:, 1 : 1 - EVERY].reshape(2, TIMES - 1, -1, mean.shape[-1]).mean(2))) > (
        1e-3
    )


def test_the_preconditioner_of_adam_is_the_mean_of_what_divides_its_first_moment():
    """Float64, to 1e-9, from the gradients of the same run; a heavy ball has none."""
    bandit, b2, rate, interval, weight = BANDITS[0], 0.9, 0.01, HYPER.refresh_interval, HYPER.kl_weight
    learner = Learner(bandit, optimizer=Optimizer("adam", (("b2", b2),)))
    hyper = Hyper(np.array([rate]), 0.8, interval, weight)
    found = averaged_path(learner, "mean_field", [bandit], hyper, 2, 6)
    one, look = hyper._replace(learning_rate=rate), {"observe": lambda stride: stride.info.gradient}
    start = init(learner, one, jnp.asarray(bandit.initial_parameters))
    gradients = np.asarray(rollout(learner, DYNAMICS["mean_field"](learner), one, KEY, start, 12, **look).seen)
    moment, divided = np.zeros(gradients.shape[1]), []
    for step, gradient in enumerate(gradients, 1):
        moment = b2 * moment + (1 - b2) * gradient**2
        divided.append(1 / (np.sqrt(moment / (1 - b2**step)) + 1e-8))
    expected = np.reshape(divided, (2, 6, -1))
    np.testing.assert_allclose(found.preconditioner[0], expected.mean(axis=1), rtol=1e-9)
    assert np.max(np.abs(expected[:, -1] / expected.mean(axis=1) - 1)) > 1e-2
    heavy = averaged_path(Learner(bandit), "mean_field", [bandit], hyper, 2, 6)
    assert heavy.preconditioner is None
    place = found.mean[:, 1:]
    stiffness = stiffness_of_paths(learner, "mean_field", [bandit], weight, place, found.preconditioner[:, 1:])
    dense = -jax.jacfwd(lambda x: drift_of(learner, "mean_field")(x, x, weight))(jnp.asarray(place[0, 0]))
    values = np.linalg.eigvals(expected.mean(axis=1)[1][:, None] * np.asarray(dense))
    np.testing.assert_allclose(stiffness, [[values.real.max()]], rtol=1e-5)


def test_noise_moves_a_run_by_its_size_and_every_run_by_its_own(learner):
    """Half the noise moves half as far (1e-6 against parameters near 1); two copies of one network part."""
    same = [BANDITS[0], BANDITS[0]]
    hyper = HYPER._replace(learning_rate=np.array([0.5, 0.5]))
    clean, full, half = (averaged_path(learner, "mean_field", same, hyper, 1, 6, noise=x).end for x in (0, 1e-6, 5e-7))
    np.testing.assert_array_equal(clean[0], clean[1])
    np.testing.assert_allclose(full - clean, 2 * (half - clean), rtol=1e-3, atol=1e-10)
    assert np.linalg.norm(full[0] - full[1]) > 1e-6


def test_every_path_has_the_stiffness_of_its_own_bandit(learner, plain):
    paths = plain[:, ::12]
    found = stiffness_of_paths(learner, "mean_field", BANDITS, 0.3, paths)
    for bandit, path, row in zip(BANDITS, paths, found, strict=True):
        np.testing.assert_allclose(row, stiffness_along(Learner(bandit), "mean_field", 0.3, path), rtol=1e-6)
    swapped = stiffness_of_paths(learner, "mean_field", BANDITS[::-1], 0.3, paths)
    assert np.min(np.abs(swapped / found - 1)) > 1e-3
    with pytest.raises(ValueError, match="shorter"):
        stiffness_of_paths(learner, "mean_field", BANDITS, 0.3, paths[:1])


def test_growth_at_rest_is_the_multiplier_of_the_block():
    """Model A without momentum: |1 - eta N K|, here 1.5; 1e-7 from rest over four blocks it is linear to 1e-4."""
    interval, bandit = 4, sequence(2, 2)
    learner = Learner(bandit)
    rest = find_fixed_point(learner, "mean_field", 0.3).rest
    stiffness = stiffness_along(learner, "mean_field", 0.3, rest[None])[0]
    hyper = Hyper(np.array([2.5 / (interval * stiffness)]), 0.0, interval, 0.3)
    grown = growth_per_block(learner, "mean_field", [bandit], hyper, rest[None], 4, 1e-7)
    assert grown == pytest.approx(1.5, rel=1e-4)
    other = growth_per_block(learner, "mean_field", [bandit], hyper._replace(momentum=0.1), rest[None], 4, 1e-7)
    assert abs(other / 1.5 - 1) > 0.01


def test_the_interval_threshold_at_rest_is_that_of_the_loop():
    """Model A without momentum: 2/(eta K), here 6.5; two runs at once; none where growth is never, or always, seen."""
    bandit = sequence(2, 2)
    learner = Learner(bandit)
    rest = find_fixed_point(learner, "mean_field", 0.3).rest
    stiffness = stiffness_along(learner, "mean_field", 0.3, rest[None])[0]

    def found(intervals):
        hyper = Hyper(np.array([2 / (6.5 * stiffness), 2 / (9.2 * stiffness)]), 0.0, 1, 0.3)
        starts = np.stack([rest, rest])
        return interval_threshold(learner, "mean_field", [bandit] * 2, hyper, starts, intervals, 3, 1e-7)

    np.testing.assert_allclose(found([4, 6, 8, 12]), [6.5, 9.2], rtol=1e-3)
    np.testing.assert_allclose(found([8, 12]), [np.nan, 9.2], rtol=1e-3)
    assert np.all(np.isnan(found([4, 6])))
