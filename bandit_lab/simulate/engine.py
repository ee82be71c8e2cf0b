"""Many cells times many seeds, in blocks of one fixed width.

A block is `Width.cells` settings x `Width.seeds` replicas, padded where a grid does not fill it, and there is one
compiled program for a block. A cell's numbers therefore do not depend on which other cells stand in the grid, on their
order or on how the work is split: vectorisation at another width would change the last bits. Random numbers are keyed
by the cell's own settings and the index of the seed, never by a position in the grid.
"""

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bandit_lab import _checks
from bandit_lab._types import Array
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper, Learner, init, update
from bandit_lab.simulate.dynamics import DYNAMICS
from bandit_lab.simulate.moments import UNIT, Moments, check_first_seed, merge, no_moments, pool

Progress = Callable[[int, int], None]
"""Called with (blocks done, blocks in all)."""


@dataclass(frozen=True)
class Width:
    """Cells and seeds of one block. Part of what defines a result, bit for bit."""

    cells: int
    seeds: int


WIDTH = {"sampled": Width(cells=4, seeds=128), "mean_field": Width(cells=256, seeds=1), "finite_group": Width(256, 1)}


class Summary(NamedTuple):
    """What is kept of one run, all of the expected reward J unless said; arrays [C, S].

    tail_mean, tail_std: over the recorded times of the last half. overshoot: largest excursion beyond the reference
    value, on the side away from the start (<= 0: never reached). final_max_probability: of the most likely arm.
    tail_silent: mean share of silent groups in the last half. finite: every logit finite at the end.
    """

    tail_mean: Any
    tail_std: Any
    overshoot: Any
    final_max_probability: Any
    tail_silent: Any
    finite: Any


class Runs(NamedTuple):
    """Results of `run`. reward_mean, reward_variance: [C, T + 1] over seeds (population variance), steps 0..T.

    moments: the same for every unit of seeds, from which `moments.pool` makes them over several calls.
    """

    reward_mean: np.ndarray
    reward_variance: np.ndarray
    summary: Summary
    moments: Moments


def cell_identity(cells: Hyper) -> np.ndarray:
    """A 32-bit name [C] for every cell made from its settings alone; random streams are keyed by it."""
    columns = np.stack([np.asarray(column, np.float64) for column in cells], axis=1)
    return np.array([zlib.crc32(np.ascontiguousarray(row).tobytes()) for row in columns], np.uint32)


def typed_cells(learner: Learner, cells: Hyper, dtype: Any) -> Hyper:
    """Cells [C] as host arrays of `dtype`, refresh intervals as int32 where the staleness model counts whole steps."""
    columns = Hyper(*(np.asarray(column, dtype) for column in cells))
    if not learner.staleness.whole_interval:
        return columns
    return columns._replace(refresh_interval=np.asarray(cells.refresh_interval, np.int32))


class _Tail(NamedTuple):
    times: Array
    mean: Array
    square: Array
    silent: Array
    overshoot: Array


def _one_run(learner: Learner, dynamics: str, steps: int, hyper: Hyper, key: Array, theta: Array, reference: Array):
    """One seed of one cell: expected reward [T + 1] and its Summary."""
    gradient = DYNAMICS[dynamics](learner)
    start = expected_reward(learner.bandit, theta)
    side = jnp.sign(reference - start)

    def watch(tail: _Tail, step: Array, reward: Array, silent: Array) -> _Tail:
        counts = step >= (steps + 1) // 2
        times = tail.times + counts
        change = jnp.where(counts, reward - tail.mean, 0)
        mean = tail.mean + change / jnp.maximum(times, 1)
        square = tail.square + change * (reward - mean)
        overshoot = jnp.maximum(tail.overshoot, side * (reward - reference))
        return _Tail(times, mean, square, tail.silent + jnp.where(counts, silent, 0), overshoot)

    def step(carry, _):
        state, tail = carry
        reward = expected_reward(learner.bandit, state.theta)
        state, info = update(learner, gradient, hyper, key, state)
        return (state, watch(tail, state.step - 1, reward, info.silent)), reward

    zero = jnp.zeros((), theta.dtype)
    tail = _Tail(jnp.int32(0), zero, zero, zero, jnp.full((), -jnp.inf, theta.dtype))
    (state, tail), rewards = jax.lax.scan(step, (init(learner, hyper, theta), tail), length=steps)
    final = expected_reward(learner.bandit, state.theta)
    silent = tail.silent / jnp.maximum(tail.times, 1)
    tail = watch(tail, state.step, final, zero)
    summary = Summary(
        tail.mean,
        jnp.sqrt(tail.square / tail.times),
        tail.overshoot,
        jnp.max(jnp.exp(learner.bandit.log_policy(state.theta))),
        silent,
        jnp.all(jnp.isfinite(state.theta)),
    )
    return jnp.append(rewards, final), summary


@partial(jax.jit, static_argnames=("dynamics", "steps", "curves"))
def _block(
    learner: Learner,
    dynamics: str,
    steps: int,
    curves: bool,
    cells: Hyper,
    names,
    seeds,
    counted,
    key,
    theta,
    reference,
):
    """One block. cells, names: [c]. seeds, counted: [s]. theta: [c, D]. Gives (count, mean, M2), Summary."""

    def lane(hyper, name, theta, reference, seed):
        run_key = jax.random.fold_in(jax.random.fold_in(key, name), seed)
        return _one_run(learner, dynamics, steps, hyper, run_key, theta, reference)

    over_seeds = jax.vmap(lane, (None, None, None, None, 0))
    rewards, summary = jax.vmap(over_seeds, (0, 0, 0, 0, None))(cells, names, theta, reference, seeds)
    if curves:
        return rewards, summary
    weight = counted.astype(rewards.dtype)[:, None]
    count = jnp.sum(weight)
    mean = jnp.sum(rewards * weight, axis=1) / count
    square = jnp.sum((rewards - mean[:, None]) ** 2 * weight, axis=1)
    return (count, mean, square), summary


def _pad(values: np.ndarray, start: int, width: int) -> np.ndarray:
    """`width` entries from `start`, the last one repeated where there are none left."""
    return values[np.minimum(np.arange(start, start + width), len(values) - 1)]


def cast(tree: Any, dtype: Any) -> Any:
    """Every floating leaf of a pytree as `dtype`."""
    return jax.tree.map(lambda x: x.astype(dtype) if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating) else x, tree)


def run(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    *,
    steps: int,
    seeds: int = 1,
    seed: int = 0,
    first_seed: int = 0,
    dtype: Any = np.float32,
    initial: np.ndarray | None = None,
    reference: np.ndarray | None = None,
    common_random_numbers: bool = False,
    progress: Progress | None = None,
    threads: int = 2,
) -> Runs:
    """Run every cell with every seed and keep means over seeds and a summary of each run.

    Args:
      learner: what is trained. dynamics: `mean_field`, `finite_group` (both ignore `seeds` beyond 1) or `sampled`.
      cells: Hyper of four equally long 1-D arrays [C].
      steps: T updates. seeds: S replicas. seed: root of all random numbers.
      first_seed: index of the first replica, a multiple of `moments.UNIT`: one long range of seeds may be run as
        several calls, and `moments.pool` over their moments gives the bits of a single call.
      dtype: float32 or float64 (needs x64 enabled).
      initial: [D] or [C, D] parameters at step 0; default the bandit's.
      reference: [C] expected reward of the fixed point, from which overshoot is measured; default NaN.
      common_random_numbers: give all cells the same streams (paired comparison), instead of independent ones.
      progress: called after every block. threads: blocks in flight.

    Returns:
      `Runs`, as float64 numpy arrays.

    Raises:
      ValueError: steps or seeds < 1, first_seed within a unit, cells of unequal length, unknown dynamics.
    """
    _checks.choice("dynamics", dynamics, DYNAMICS)
    _checks.integer("steps", steps, 1)
    _checks.integer("seeds", seeds, 1)
    check_first_seed(first_seed)
    count = len(np.asarray(cells.learning_rate))
    for name, column in cells._asdict().items():
        _checks.require(np.shape(column) == (count,), name, f"an array of {count} cells", np.shape(column))
    width = WIDTH[dynamics]
    arrays = _prepare(learner, cells, dtype, initial, reference, common_random_numbers)
    learner = cast(learner, dtype)
    key = jax.random.key(seed)

    def one(block: tuple[int, int]):
        cell, replica = block
        part = jax.tree.map(lambda x: _pad(x, cell, width.cells), arrays)
        index = np.arange(replica, replica + width.seeds)
        counted, index = index < seeds, (first_seed + index).astype(np.int32)
        hyper, names, theta, start = part
        out = _block(learner, dynamics, steps, False, hyper, names, index, counted, key, theta, start)
        return jax.tree.map(np.asarray, out)

    blocks = [(c, s) for c in range(0, count, width.cells) for s in range(0, seeds, width.seeds)]
    results = _map(one, blocks, threads, progress)
    return _collect(blocks, results, count, seeds, steps)


def trajectories(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    *,
    steps: int,
    seeds: int = 1,
    seed: int = 0,
    dtype: Any = np.float32,
    initial: np.ndarray | None = None,
) -> np.ndarray:
    """Expected reward [C, S, T + 1] of every single run: the same runs as in `run`, kept whole. For few cells."""
    width = WIDTH[dynamics]
    count = len(np.asarray(cells.learning_rate))
    arrays = _prepare(learner, cells, dtype, initial, None, False)
    learner, key = cast(learner, dtype), jax.random.key(seed)
    rewards = np.empty((count, seeds, steps + 1))
    for c in range(0, count, width.cells):
        hyper, names, theta, start = jax.tree.map(lambda x, c=c: _pad(x, c, width.cells), arrays)
        for s in range(0, seeds, width.seeds):
            index = np.arange(s, s + width.seeds)
            block, _ = _block(
                learner, dynamics, steps, True, hyper, names, index.astype(np.int32), index < seeds, key, theta, start
            )
            part = rewards[c : c + width.cells, s : s + width.seeds]
            part[:] = np.asarray(block)[: part.shape[0], : part.shape[1]]
    return rewards


def _prepare(learner: Learner, cells: Hyper, dtype, initial, reference, common: bool):
    """(Hyper [C], stream names [C], initial parameters [C, D], reference [C]) as host arrays of the right types."""
    count = len(np.asarray(cells.learning_rate))
    hyper = typed_cells(learner, cells, dtype)
    names = np.zeros(count, np.uint32) if common else cell_identity(cells)
    start = np.asarray(learner.bandit.initial_parameters if initial is None else initial, dtype)
    start = np.broadcast_to(start, (count, start.shape[-1]))
    middle = np.full(count, np.nan) if reference is None else np.asarray(reference)
    return hyper, names, start, middle.astype(dtype)


def _map(function: Callable, items: list, threads: int, progress: Progress | None) -> list:
    """[function(item)] with a few in flight, in order; stops submitting at the first exception or interrupt."""
    results = []
    with ThreadPoolExecutor(threads) as pool:
        pending = [pool.submit(function, item) for item in items]
        try:
            for done, future in enumerate(pending, 1):
                results.append(future.result())
                if progress:
                    progress(done, len(items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _collect(blocks: list, results: list, count: int, seeds: int, steps: int) -> Runs:
    """Pool blocks of seeds within their unit and then units, in their fixed order, in float64."""
    moments = no_moments(count, seeds, steps + 1)
    shape = (count, seeds)
    summary = Summary(*(np.empty(shape, bool if name == "finite" else float) for name in Summary._fields))
    sizes = np.zeros((count, len(moments.seeds)))
    for (c, s), ((n, part_mean, part_square), part_summary) in zip(blocks, results, strict=True):
        rows, unit = slice(c, min(c + len(part_mean), count)), s // UNIT
        keep = rows.stop - rows.start
        so_far = float(sizes[c, unit]), moments.mean[rows, unit], moments.square[rows, unit]
        part = float(n), part_mean[:keep].astype(float), part_square[:keep].astype(float)
        sizes[rows, unit], moments.mean[rows, unit], moments.square[rows, unit] = merge(so_far, part)
        for name, target in summary._asdict().items():
            lanes = getattr(part_summary, name)
            columns = slice(s, min(s + lanes.shape[1], seeds))
            target[rows, columns] = lanes[:keep, : columns.stop - s]
    moments = moments._replace(seeds=sizes[0])
    return Runs(*pool([moments]), summary, moments)
