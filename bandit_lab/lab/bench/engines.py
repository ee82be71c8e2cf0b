"""What is timed: each implementation as a function from a case to a function from a seed to curves.

Setting up and compiling is done once, outside; the first call of the returned function is timed apart.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import jax
import numpy as np

from bandit_lab import simulation
from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.lab.bench import numpy_reference
from bandit_lab.lab.bench.numpy_reference import Curves, pooled
from bandit_lab.lab.bench.workload import Case
from bandit_lab.simulation import fast
from bandit_lab.simulation.cells import cast
from bandit_lab.simulation.devices import in_order
from bandit_lab.simulation.lane_sparse import is_sparse, where_few

Run = Callable[[int], Curves]

CELLS = 2048
"""Settings of a part: its curves in double precision stay below what an allocator gives back to the system."""


TOGETHER = 256
"""Runs of one `jax.vmap` of a policy alone: the fastest of 128, 256, 1,024 and 4,096 for networks, features, tokens."""


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


def policy_engine(case: Case, bandit: Bandit, threads: int) -> Run:
    """A bandit's `log_policy` and its pull-back alone, by `jax.vmap` over some runs: what no update does without."""
    bandit = cast(bandit, np.float32)
    start = np.asarray(bandit.initial_parameters)

    def one(theta: Array) -> Array:
        log_policy, pull_back = jax.vjp(bandit.log_policy, theta)
        return theta + 1e-6 * pull_back(log_policy)[0]

    @jax.jit
    def every(theta: Array) -> Array:
        return jax.lax.fori_loop(0, case.steps, lambda _, theta: jax.vmap(one)(theta), theta)

    count = max(threads, case.seeds // TOGETHER)
    parts = [np.broadcast_to(start, (len(part), *start.shape)) for part in np.array_split(range(case.seeds), count)]

    def run(seed: int) -> Curves:
        for _ in in_order(lambda theta: jax.block_until_ready(every(theta)), parts, threads):
            pass
        return Curves(case.seeds, np.zeros(1), np.ones(1))

    return run


def policy_flops(bandit: Bandit) -> float | None:
    """Floating-point operations of `log_policy` and its pull-back for one run, as XLA counts them.

    Exponentials and logarithms are left out. None where it does not count, and where the fast path skips zeros in a
    bandit's own matrices: it then does less.
    """
    if any(is_sparse(where_few(np.asarray(leaf))) for leaf in jax.tree.leaves(bandit)):
        return None

    def one(theta: Array) -> Array:
        log_policy, pull_back = jax.vjp(bandit.log_policy, theta)
        return pull_back(log_policy)[0]

    start = np.broadcast_to(bandit.initial_parameters, (TOGETHER, *np.shape(bandit.initial_parameters)))
    found = jax.jit(jax.vmap(one)).lower(start).compile().cost_analysis() or {}
    return found["flops"] / TOGETHER if "flops" in found else None


def product_flops(size: int = 512, seconds: float = 2.0) -> float:
    """Floating-point operations per second of NumPy's product of two float32 matrices on all cores.

    The best within some seconds: other programs on the machine only make it slower.
    """
    a, best, begin = np.ones((size, size), np.float32), np.inf, time.perf_counter()
    while (start := time.perf_counter()) < begin + seconds:
        np.dot(a, a)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


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
