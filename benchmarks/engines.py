"""What is timed: each implementation as a function from a case to a function from a seed to curves.

Setting up and compiling is done once, outside; the first call of the returned function is timed apart.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from bandit_lab import simulation
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.simulation import fast
from benchmarks import numpy_reference
from benchmarks.numpy_reference import Curves, pooled
from benchmarks.workload import Case

Run = Callable[[int], Curves]

CELLS = 2048
"""Settings of a part: its curves in double precision stay below what an allocator gives back to the system."""


def numpy_engine(case: Case, rng: str, threads: int) -> Run:
    """Vectorised NumPy, see `numpy_reference`."""
    return lambda seed: numpy_reference.simulate(case, seed, threads)


def reference_engine(case: Case, rng: str, threads: int) -> Run:
    """The reference path of `simulation.run`: the readable update, one seed at a time, vectorised outside.

    It keeps the curves of every setting: many settings are run in parts, so that these fit into the caches.
    """
    learner, cells = case.learner(), case.cells()
    count = len(cells.learning_rate)
    parts = [Hyper(*(column[i : i + CELLS] for column in cells)) for i in range(0, count, CELLS)]

    def one(part: Hyper, seed: int) -> Curves:
        runs = simulation.run(
            learner,
            case.dynamics,
            part,
            steps=case.steps,
            seeds=case.seeds_per_cell,
            seed=seed,
            path="reference",
            summary=False,
            threads=threads,
        )
        mean, variance = runs.reward_mean[:, :-1], runs.reward_variance[:, :-1]
        centre = mean.mean(axis=0)
        away = mean - centre
        between = np.einsum("ct,ct->t", away, away) / len(mean)
        return Curves(len(mean) * case.seeds_per_cell, centre, variance.mean(axis=0) + between)

    def every(seed: int) -> Curves:
        """One part's curves are added up while the next one runs. NumPy has its blocks side by side too."""
        if len(parts) == 1:
            return one(parts[0], seed)
        with ThreadPoolExecutor(threads) as pool:
            return pooled(list(pool.map(partial(one, seed=seed), parts)))

    return every


def fast_engine(case: Case, rng: str, threads: int) -> Run:
    """The fast path, moments over all runs."""
    return ensemble_engine(case, case.learner(), rng, threads)


def ensemble_engine(case: Case, learner: Learner, rng: str, threads: int) -> Run:
    """The fast path on the work of a case, whatever is trained."""
    moments = fast.ensemble(
        learner,
        case.dynamics,
        case.cells(),
        steps=case.steps,
        seeds=case.seeds_per_cell,
        rng=rng,
        threads=threads,
    )

    def run(seed: int) -> Curves:
        mean, variance = moments(seed)
        return Curves(case.seeds, np.asarray(mean)[:-1], np.asarray(variance)[:-1])

    return run


ENGINES: dict[str, Callable[[Case, str, int], Run]] = {
    "numpy": numpy_engine,
    "reference": reference_engine,
    "fast": fast_engine,
}
SCALED = {"reference": 200}
"""Engines that run so many steps at most: few enough for patience, enough that what a call costs hardly counts."""


def shortened(name: str, case: Case) -> Case:
    """The case as an engine runs it."""
    return replace(case, steps=min(case.steps, SCALED.get(name, case.steps)))
