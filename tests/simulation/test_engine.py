"""The engine: same bits whatever the grid looks like, one compilation, both precisions, right statistics."""

import gc
import zlib

import jax
import numpy as np
import pytest
from settings import cells, learner, thinned

from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import Hyper
from bandit_lab.simulation import reference, run, trajectories
from bandit_lab.simulation.cells import cell_identity
from bandit_lab.simulation.results import Route, Shard, gather

GRID = Hyper(
    np.array([0.05, 0.4, 0.1, 0.9, 0.2, 0.7, 0.3]),
    np.array([0.0, 0.9, 0.5, 0.0, 0.3, 0.9, 0.2]),
    np.array([1, 2, 5, 8, 3, 1, 4]),
    np.array([1.0, 1.0, 0.5, 1.0, 2.0, 1.0, 0.1]),
)


def take(grid: Hyper, index) -> Hyper:
    return Hyper(*(column[np.asarray(index)] for column in grid))


def as_bytes(runs, row: int) -> list[bytes]:
    summary = [np.ascontiguousarray(value[row]).tobytes() for value in runs.summary]
    return [runs.reward_mean[row].tobytes(), runs.reward_variance[row].tobytes(), *summary]


KINDS = [("sampled", "refresh"), ("sampled", "lag"), ("mean_field", "pipeline")]


@pytest.mark.parametrize(("kind", "dtype"), thinned(KINDS, [np.float32, np.float64]))
def test_a_cells_bytes_do_not_depend_on_the_grid(kind, dtype):
    """Other order, other size, alone, other number of threads: byte for byte the same. Another seed is not."""
    dynamics, staleness = kind
    trained = learner("grpo", group_size=8, staleness=staleness, horizon=8)
    options = {"steps": 40, "seeds": 130 if dynamics == "sampled" else 1, "seed": 4, "dtype": dtype}
    options["reference"] = np.full(7, 0.6)
    whole = run(trained, dynamics, GRID, **options)
    order = np.array([5, 2, 0, 6, 3, 1, 4])
    shuffled = run(trained, dynamics, take(GRID, order), **options, threads=1)
    for new, old in enumerate(order):
        assert as_bytes(shuffled, new) == as_bytes(whole, old)
    options["reference"] = np.full(1, 0.6)
    for i in (1, 6):
        assert as_bytes(run(trained, dynamics, take(GRID, [i]), **options), 0) == as_bytes(whole, i)
    if dynamics == "sampled":
        other = run(trained, dynamics, take(GRID, [1]), **{**options, "seed": 5})
        assert as_bytes(other, 0) != as_bytes(whole, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_of_seeds_has_the_same_bytes_in_any_block(dtype):
    """Reference path: a single cell fills its blocks with its own seeds, and has the bytes it has among others."""
    trained, sizes = learner("grpo", group_size=4), []
    width = reference.WIDTH["sampled"]
    options = {"steps": 12, "seeds": 5 * width.seeds + 60, "seed": 4, "dtype": dtype, "path": "reference"}
    whole = run(trained, "sampled", GRID, **options, threads=1)
    for i in (0, 3, 6):
        one = run(trained, "sampled", take(GRID, [i]), **options, progress=lambda _, calls: sizes.append(calls))
        assert as_bytes(one, 0) == as_bytes(whole, i)
    assert max(sizes) == 3  # five full rows are two blocks of four; the sixth, which is not full, is one of its own


def test_cells_have_independent_streams():
    trained = learner("grpo", two_arm(), group_size=4)
    pair = cells([0.01, 0.0100001])
    apart = run(trained, "sampled", pair, steps=30, seeds=512)
    assert abs(np.corrcoef(apart.summary.tail_mean)[0, 1]) < 5 / np.sqrt(512)


@pytest.mark.parametrize(("steps", "path"), [(24, "fast"), (25, "reference")])
@pytest.mark.usefixtures("compiled_quickly")
def test_statistics_over_seeds_are_those_of_the_single_runs(steps, path):
    """The tail is what comes at half of the steps or later: 12, ..., 24 and 13, ..., 25."""
    trained = learner("grpo", group_size=4)
    options = {"steps": steps, "seeds": 150, "seed": 2, "dtype": np.float64, "path": path}
    runs = run(trained, "sampled", take(GRID, [1, 2]), **options, reference=np.array([0.55, 0.6]))
    single = trajectories(trained, "sampled", take(GRID, [1, 2]), **options)
    np.testing.assert_allclose(runs.reward_mean, single.mean(1), rtol=1e-12)
    np.testing.assert_allclose(runs.reward_variance, single.var(1), rtol=1e-9, atol=1e-18)
    tail = single[:, :, np.arange(steps + 1) >= steps / 2]
    np.testing.assert_allclose(runs.summary.tail_mean, tail.mean(-1), rtol=1e-12)
    np.testing.assert_allclose(runs.summary.tail_std, tail.std(-1), rtol=1e-9)
    side = np.sign(np.array([0.55, 0.6])[:, None] - single[:, :, 0])
    over = np.max(side[..., None] * (single - np.array([0.55, 0.6])[:, None, None]), axis=-1)
    np.testing.assert_allclose(runs.summary.overshoot, over, rtol=1e-9, atol=1e-15)
    assert runs.summary.finite.all()


def test_single_runs_are_kept_whole_where_a_chunk_of_the_fast_path_is_narrow():
    """Many arms have few seeds side by side: a chunk is then as wide as a row, and moments go on over many chunks."""
    trained = learner("grpo", k_arm(np.linspace(0.2, 0.8, 64).tolist()), group_size=4)
    options = {"steps": 4, "seeds": 300, "seed": 5, "path": "fast"}
    single = trajectories(trained, "sampled", cells(0.1, 0.5), **options)
    assert single.shape == (1, 300, 5)
    assert len(np.unique(single[0, :, -1])) > 290
    np.testing.assert_allclose(run(trained, "sampled", cells(0.1, 0.5), **options).reward_mean, single.mean(1), 1e-5)


def test_precisions_agree_and_are_what_was_asked_for():
    """Mean-field runs of 200 steps in float32 and float64 differ by rounding only (declared: 1e-5), and do differ."""
    trained = learner("grpo", two_arm())
    single, double = (
        run(trained, "mean_field", GRID, steps=200, dtype=d).reward_mean for d in (np.float32, np.float64)
    )
    assert 0 < np.max(np.abs(single - double)) < 1e-5


@pytest.mark.parametrize("path", ["fast", "reference"])
def test_the_second_call_does_not_compile(path):
    """Other cells, more seeds, another root key: the same program; another length is another one."""

    def cache_size() -> int:
        gc.collect()
        return len(jax.devices()[0].client.live_executables())

    trained = learner("dr_grpo", group_size=6)
    run(trained, "sampled", GRID, steps=33, seeds=20, path=path)
    before = cache_size()
    other = learner("dr_grpo", group_size=6)
    run(other, "sampled", take(GRID, [3, 1, 0]), steps=33, seeds=90, seed=9, path=path)
    assert cache_size() == before
    run(other, "sampled", take(GRID, [1]), steps=34, seeds=20, path=path)
    assert cache_size() == before + 1


def test_batch_reuse_draws_the_same_groups_through_a_block():
    """mu = 0, frozen: with reuse all N increments of a block are equal; without, they are not."""
    increments = {}
    for reuse in (True, False):
        trained = learner("grpo", two_arm(), group_size=4, batch_reuse=reuse)
        path = trajectories(trained, "sampled", cells(0.01, 0.0, 5, 0.0), steps=20, seeds=3, dtype=np.float64)[0]
        logit = np.log((path - 0.1) / (0.9 - path))  # J = 0.1 + 0.8 p
        increments[reuse] = np.diff(logit).reshape(3, 4, 5)
    assert np.max(np.ptp(increments[True], axis=-1)) < 1e-12
    assert np.min(np.ptp(increments[False], axis=-1)) > 1e-4


def test_key_of_a_cell_is_its_settings():
    assert len(set(cell_identity(GRID).tolist())) == 7
    np.testing.assert_array_equal(cell_identity(take(GRID, [3])), cell_identity(GRID)[[3]])
    settings = np.stack([np.asarray(column, float) for column in GRID], axis=1)
    np.testing.assert_array_equal(cell_identity(GRID), [zlib.crc32(row.tobytes()) for row in settings])


def test_moments_of_single_precision_are_summed_in_double():
    rewards = np.random.default_rng(0).normal(0.9, 1e-4, (4000, 3)).astype(np.float32)
    runs = gather([Shard(0, 0, 4000, None, None, rewards, None)], 1, 4000, 2, False, Route("fast", None))
    np.testing.assert_allclose(runs.reward_variance[0], rewards.astype(float).var(axis=0), rtol=1e-9)
