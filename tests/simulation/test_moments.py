"""Very many seeds in several calls: the bits of one call, whatever the cut."""

from itertools import pairwise

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.bandits import two_arm
from bandit_lab.simulation import UNIT, engine, pool, run
from bandit_lab.simulation.results import merge

SEEDS = 2 * UNIT + 150
OPTIONS = {"steps": 4, "seed": 3}


@pytest.fixture(scope="module")
def trained():
    return learner("grpo", two_arm(), group_size=4)


@pytest.fixture(scope="module")
def whole(trained):
    return run(trained, "sampled", cells([0.3, 0.9], 0.5), seeds=SEEDS, **OPTIONS)


@pytest.mark.parametrize("cuts", [(UNIT,), (UNIT, 2 * UNIT), (2 * UNIT,)])
def test_ranges_of_seeds_give_the_bytes_of_one_call(trained, whole, cuts):
    edges = [0, *cuts, SEEDS]
    parts = [
        run(trained, "sampled", cells([0.3, 0.9], 0.5), seeds=stop - start, first_seed=start, **OPTIONS)
        for start, stop in pairwise(edges)
    ]
    mean, variance = pool(part.moments for part in parts)
    assert mean.tobytes() == whole.reward_mean.tobytes()
    assert variance.tobytes() == whole.reward_variance.tobytes()
    for name, column in whole.summary._asdict().items():
        joined = np.concatenate([getattr(part.summary, name) for part in parts], axis=1)
        assert joined.tobytes() == column.tobytes(), name


def test_the_reference_path_draws_other_seeds_in_another_range(trained):
    """The second range of one call's seeds, to the byte. Planted: every range draws the first seeds again."""
    options = OPTIONS | {"path": "reference"}
    both = run(trained, "sampled", cells([0.3], 0.5), seeds=UNIT + 20, **options)
    second = run(trained, "sampled", cells([0.3], 0.5), seeds=20, first_seed=UNIT, **options)
    assert second.summary.tail_mean.tobytes() == both.summary.tail_mean[:, UNIT:].tobytes()


def test_a_unit_is_whole_blocks_and_counts_its_seeds(whole):
    assert all(UNIT % width.seeds == 0 for width in engine.WIDTH.values())
    assert whole.moments.seeds.tolist() == [UNIT, UNIT, 150]


def test_merged_moments_are_those_of_all_numbers():
    values = np.random.default_rng(0).standard_normal((50, 3)) + 1e3
    parts = [(float(len(v)), v.mean(0), ((v - v.mean(0)) ** 2).sum(0)) for v in np.split(values, [7, 20])]
    count, mean, square = merge(merge(parts[0], parts[1]), parts[2])
    assert count == 50
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-14)
    np.testing.assert_allclose(square / count, values.var(0), rtol=1e-10)
