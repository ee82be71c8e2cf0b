"""Chunks of a sweep: how they are cut, what names them, when one has failed."""

from dataclasses import replace
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest
from settings import cells, learner

from bandit_lab.app.chunks.run import key_of
from bandit_lab.app.settings.config import ChunkSizes, SampledGrid, SweepSettings
from bandit_lab.bandits import two_arm
from bandit_lab.lab.sweep import sampled
from bandit_lab.lab.sweep.plan import CHUNK_RUNS
from bandit_lab.lab.sweep.sampled import RunsWork, _chunk_shape
from bandit_lab.simulation import UNIT, Moments, Summary
from bandit_lab.simulation.engine import WIDTH

SUMMARY = (0.5, 0.1, 0.0, 0.9, 0.0, True)


def plan(**settings):
    one = learner("grpo", two_arm(), group_size=4)
    return SimpleNamespace(learner=one, trained=one, curves={}, settings=SweepSettings(**settings))


def work(count=10, seeds=3 * UNIT + 5, **settings) -> RunsWork:
    rates = cells(np.linspace(0.1, 1.0, count), 0.5)
    start, middle = np.zeros((count, 2)), np.full(count, 0.6)
    codes = np.ones((count, seeds), np.int8)
    return RunsWork(plan(**settings), 50, np.arange(count), rates, start, middle, 0, seeds, True, lambda s, i: codes)


def fake_run(learner, dynamics, cells, *, steps, seeds, first_seed, **options):
    """Runs whose every number tells its cell, its seed and its unit."""
    cell, seed = cells.learning_rate[:, None], first_seed + np.arange(seeds)
    summary = Summary(*(np.broadcast_to(cell + seed if i < 5 else seed >= 0, (len(cell), seeds)) for i in range(6)))
    starts = np.arange(first_seed, first_seed + seeds, UNIT)
    mean = np.broadcast_to((cell + starts)[..., None], (len(cell), len(starts), steps + 1))
    counts = np.minimum(first_seed + seeds - starts, UNIT).astype(float)
    return SimpleNamespace(summary=summary, moments=Moments(counts, mean, 2 * mean))


def test_means_without_kept_runs_are_those_of_the_runs_that_stayed_finite():
    """Planted: the mean over all runs."""
    column = np.array([[1.0, np.nan, 4.0], [2.0, 3.0, 7.0]])
    finite = np.array([[True, False, True], [True, True, False]])
    summary = Summary(*(column,) * 5, finite)
    arrays = sampled._outcome_arrays(summary, np.ones((2, 3), np.int8))
    assert arrays["finite_runs"].tolist() == [[2], [2]]
    for name in sampled.FIELDS:
        np.testing.assert_allclose(arrays[sampled.MEAN + name], [[2.5], [2.5]])


def test_a_diverged_run_is_an_outcome_but_a_mean_of_finite_runs_must_be_finite(monkeypatch):
    def run(*args, **options):
        runs = fake_run(*args, **options)
        runs.moments.mean.setflags(write=True)
        mean = runs.moments.mean.copy()
        mean[2, 1, 7] = np.nan
        finite = np.ones((10, options["seeds"]), bool)
        finite[2, 5] = diverged is False
        return SimpleNamespace(summary=runs.summary._replace(finite=finite), moments=runs.moments._replace(mean=mean))

    monkeypatch.setattr(sampled, "run", run)
    diverged = True
    assert np.isnan(work().compute()["unit_mean"]).sum() == 1
    diverged = False
    with pytest.raises(FloatingPointError, match="a mean over runs that all stayed finite is not finite"):
        work().compute()


def test_everything_that_decides_the_numbers_is_in_the_key_and_nothing_else(monkeypatch):
    base = work()
    others = [
        *(
            work(count=9),
            work(seeds=UNIT),
            replace(base, steps=51),
            replace(base, first=UNIT),
            replace(base, keep=False),
        ),
        *(work(seed=1), work(precision="float64"), work(group_size=5), work(kl_estimator="k3"), work(prompts=2)),
        *(work(batch_reuse=True), work(staleness={"name": "lag"}), work(bandit={"name": "k_arm"})),
        work(sampled=SampledGrid(start="initial")),
        replace(base, cells=base.cells._replace(kl_weight=np.nextafter(base.cells.kl_weight, 2))),
    ]
    assert len({key_of(w) for w in (base, *others)}) == len(others) + 1
    same = [work(quiet=True), work(run_dir="elsewhere"), work(chunk=ChunkSizes(cells=4))]
    assert {key_of(w) for w in same} == {key_of(base)}
    before = key_of(base)
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.1")  # another jaxlib may round differently
    assert key_of(base) != before


@pytest.mark.parametrize(("steps", "count", "seeds"), [(1, 10**5, 10**7), (50, 10, UNIT), (10**6, 1, 1024)])
def test_chunks_are_whole_blocks_and_units_of_bounded_size(steps, count, seeds):
    wide, part = _chunk_shape(plan(), steps, count, seeds)
    assert wide % WIDTH["sampled"].cells == 0
    assert part == seeds or part % UNIT == 0
    least = min(count, WIDTH["sampled"].cells) * min(UNIT, seeds)
    assert min(wide, count) * part <= max(CHUNK_RUNS, least)
    pieces = replace(work(count=10, seeds=5), steps=steps).cut()
    assert np.concatenate([p.index for p in pieces]).tolist() == list(range(10))
