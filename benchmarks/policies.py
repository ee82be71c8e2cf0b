"""A bandit's `log_policy` and its pull-back alone, and the arithmetic in it: what no update does without."""

import time

import jax
import numpy as np

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.simulation.cells import cast
from bandit_lab.simulation.programs import in_order
from benchmarks.engines import Run
from benchmarks.numpy_reference import Curves
from benchmarks.workload import Case

TOGETHER = 256
"""Runs of one `jax.vmap` of a policy alone: the fastest of 128, 256, 1,024 and 4,096 for networks, features, tokens."""


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

    Exponentials and logarithms are left out. None where it does not count.
    """

    def one(theta: Array) -> Array:
        log_policy, pull_back = jax.vjp(bandit.log_policy, theta)
        return pull_back(log_policy)[0]

    start = np.broadcast_to(bandit.initial_parameters, (TOGETHER, *np.shape(bandit.initial_parameters)))
    cost = jax.jit(jax.vmap(one)).lower(start).compile().cost_analysis() or {}
    return cost["flops"] / TOGETHER if "flops" in cost else None


def product_flops(size: int = 512, seconds: float = 2.0) -> float:
    """Floating-point operations per second of NumPy's product of two float32 matrices on all cores.

    The best within some seconds: other programs on the machine only make it slower.
    """
    a, best, begin = np.ones((size, size), np.float32), np.inf, time.perf_counter()
    while (start := time.perf_counter()) < begin + seconds:
        np.dot(a, a)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best
