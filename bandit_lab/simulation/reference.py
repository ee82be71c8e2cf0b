"""The reference path: the update as it is defined, one seed of one cell at a time, vectorised outside (`jax.vmap`).

It runs in blocks of one fixed width, `Width.cells` rows of `Width.seeds` replicas, padded where a grid does not fill
them. There is one compiled program per block, and a block per device at a time. A row belongs to one cell; the rows of
a block may be those of one cell or of several. A cell's numbers therefore do not depend on which other cells stand in
the grid, on their order or on how the work is split: vectorisation at another width would change the last bits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bandit_lab._types import Array
from bandit_lab.bandits import expected_reward
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.simulation.cells import cast
from bandit_lab.simulation.dynamics import DYNAMICS
from bandit_lab.simulation.one_kernel import as_one, compiler_options, one_kernel
from bandit_lab.simulation.programs import Kept, in_order, mesh_for, on_every
from bandit_lab.simulation.results import Request, Shard, Summary
from bandit_lab.simulation.rollout import Stride, rollout


@dataclass(frozen=True)
class Width:
    """Rows of one block (as many `cells` fill it) and seeds of a row. Part of what defines a result, bit for bit."""

    cells: int
    seeds: int


WIDTH = {"sampled": Width(cells=4, seeds=128), "mean_field": Width(cells=256, seeds=1), "finite_group": Width(256, 1)}


class _Tail(NamedTuple):
    times: Array
    mean: Array
    square: Array
    silent: Array
    overshoot: Array


def _one_run(
    learner: Learner, dynamics: str, steps: int, watched: bool, hyper: Hyper, key: Array, theta: Array, middle: Array
) -> Any:
    """One seed of one cell: expected reward [T + 1], its Summary (None unless watched), the policy [X, K] at its end.

    middle: expected reward of the fixed point.
    """
    gradient = DYNAMICS[dynamics](learner)
    start = expected_reward(learner.bandit, theta)
    side = jnp.sign(middle - start)

    def watch(tail: _Tail, step: Array, reward: Array, silent: Array) -> _Tail:
        counts = step >= (steps + 1) // 2
        times = tail.times + counts
        change = jnp.where(counts, reward - tail.mean, 0)
        mean = tail.mean + change / jnp.maximum(times, 1)
        square = tail.square + change * (reward - mean)
        overshoot = jnp.maximum(tail.overshoot, side * (reward - middle))
        return _Tail(times, mean, square, tail.silent + jnp.where(counts, silent, 0), overshoot)

    def reward(stride: Stride) -> Array:
        return expected_reward(learner.bandit, stride.before.theta)

    def add(tail: _Tail, stride: Stride) -> _Tail:
        return watch(tail, stride.before.step, reward(stride), stride.info.silent)

    zero = jnp.zeros((), theta.dtype)
    tail = _Tail(jnp.int32(0), zero, zero, zero, jnp.full((), -jnp.inf, theta.dtype))
    keep: dict[str, Any] = {"observe": reward, "fold": add if watched else None, "total": tail if watched else None}
    state, rewards, tail = rollout(learner, gradient, hyper, key, init(learner, hyper, theta), steps, **keep)
    final, policy = expected_reward(learner.bandit, state.theta), jnp.exp(learner.bandit.log_policy(state.theta))
    rewards = jnp.append(rewards, final)
    if not watched:
        return rewards, None, policy
    silent = tail.silent / jnp.maximum(tail.times, 1)
    tail = watch(tail, state.step, final, zero)
    spread = jnp.sqrt(tail.square / tail.times)
    finite = jnp.all(jnp.isfinite(state.theta))
    return rewards, Summary(tail.mean, spread, tail.overshoot, jnp.max(policy), silent, finite), policy


class _Block(NamedTuple):
    """Inputs of one block of r rows. cells, names, theta, reference: [r], settings, their names, start [r, D], fixed
    point's reward. seeds: [r, s]. counted: [s], the same in all rows: what their sums are divided by is one number."""

    cells: Hyper
    names: Any
    theta: Any
    reference: Any
    seeds: Any
    counted: Any


class _Form(NamedTuple):
    """What a program is compiled for. steps: T. curves: J of every run instead of moments. watched: with Summary."""

    dynamics: str
    steps: int
    curves: bool
    watched: bool


def _one_block(learner: Learner, form: _Form, seed: Array, block: _Block) -> Any:
    """(count, mean, M2), or J of every run with `curves`; Summary; and the policies at the end. seed: of the root key.

    All runs side by side are the last axis inside, and the first two, [r, s], of the results.
    """
    rows, seeds = block.seeds.shape

    def of_lanes(column: Array) -> Array:
        return jnp.moveaxis(jnp.repeat(column, seeds, axis=0), 0, -1)

    def one(name: Array, replica: Array, hyper: Hyper, theta: Array, middle: Array) -> Any:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), name), replica)
        return _one_run(learner, form.dynamics, form.steps, form.watched, hyper, key, theta, middle)

    names, *columns = jax.tree.map(of_lanes, (block.names, block.cells, block.theta, block.reference))
    flat = jax.vmap(one, -1)(names, block.seeds.reshape(-1), *columns)
    rewards, summary, policies = jax.tree.map(lambda x: x.reshape(rows, seeds, *x.shape[1:]), flat)
    if form.curves:
        return rewards, summary, policies
    weight = block.counted.astype(rewards.dtype)[:, None]
    count = jnp.sum(weight)
    if seeds == 1:  # the mean of one run is the run, and there is nothing to sum
        return (count, rewards[:, 0], (rewards[:, 0] - rewards[:, 0]) ** 2), summary, policies
    mean = jnp.sum(rewards * weight, axis=1) / count
    square = jnp.sum((rewards - mean[:, None]) ** 2 * weight, axis=1)
    return (count, mean, square), summary, policies


@Kept
def _program(mesh: Mesh, form: _Form, one: bool) -> Any:
    """The jitted function (learner, seed, one block per device, stacked) -> results, stacked likewise.

    `one`: whether a block is compiled as one kernel; part of the key because the switch may be turned between calls.
    """

    def whole(learner: Learner, seed: Array, block: _Block) -> Any:
        return _one_block(learner, form, seed, block)

    def on_device(learner: Learner, seed: Array, blocks: _Block) -> Any:
        arguments = learner, seed, jax.tree.map(lambda x: x[0], blocks)
        out = one_kernel(whole, *arguments) if one else whole(*arguments)
        return jax.tree.map(lambda x: x[None], out)

    return jax.jit(on_every(mesh, on_device, (False, False, True)), compiler_options=compiler_options() if one else {})


def _blocks(mesh: Mesh, learner: Learner, form: _Form, seed: int, blocks: _Block) -> Any:
    """Every block on its device. XLA:CPU aborts on some tables of finite groups as one kernel."""
    kind, fits = ("reference", form.dynamics, jax.tree.structure(learner)), form.dynamics != "finite_group"
    return as_one(partial(_program, mesh, form), kind, learner, np.int64(seed), blocks, fits=fits)


def _rows_of_blocks(cells: int, seeds: int, width: Width) -> list[np.ndarray]:
    """(cell, first seed) [r, 2] of the rows of every block: first those full of seeds, then each cell's rest."""
    full = seeds - seeds % width.seeds
    blocks = []
    for starts in (np.arange(0, full, width.seeds), np.arange(full, seeds, width.seeds)):
        rows = np.stack([np.repeat(np.arange(cells), len(starts)), np.tile(starts, cells)], axis=1)
        blocks += [rows[i : i + width.cells] for i in range(0, len(rows), width.cells)]
    return blocks


def run_cells(asked: Request, seed: int, progress: Callable[[int, int], None] | None) -> Iterator[Shard]:
    """Results row by row, each cell's in the order of its seeds."""
    form, seeds = _Form(asked.dynamics, asked.steps, asked.whole, asked.watched), asked.seeds
    width = WIDTH[asked.dynamics]
    learner = cast(asked.learner, asked.dtype)
    blocks = _rows_of_blocks(len(asked.cells.name), seeds, width)
    mesh = mesh_for(len(blocks))
    calls = [blocks[i : i + mesh.size] for i in range(0, len(blocks), mesh.size)]

    def block(rows: np.ndarray) -> _Block:
        cell, first = np.pad(rows, ((0, width.cells - len(rows)), (0, 0)), mode="edge").T
        index = first[:, None] + np.arange(width.seeds)
        names = (asked.first_seed + index).astype(np.int32)
        hyper, name, theta, start = jax.tree.map(lambda x: x[cell], tuple(asked.cells))
        return _Block(hyper, name, theta, start, names, index[0] < seeds)

    def one(call: list[np.ndarray]) -> Any:
        filled = [block(rows) for rows in call + call[-1:] * (mesh.size - len(call))]
        stacked = jax.tree.map(lambda *columns: np.stack(columns), *filled)
        return jax.tree.map(np.asarray, _blocks(mesh, learner, form, seed, stacked))

    done = 0
    for call, results in zip(calls, in_order(one, calls, asked.threads), strict=True):
        for number, rows in enumerate(call):
            runs, summary, policies = jax.tree.map(lambda x, i=number: x[i], results)
            if seeds <= width.seeds and not asked.whole:  # every row is all of one cell: no turn of Python for each
                ends = Summary(*(x[: len(rows), :seeds] for x in summary)) if asked.watched else None
                last = policies[: len(rows), :seeds] if asked.final else None
                mean, square = (x[: len(rows)] for x in runs[1:])
                yield Shard(slice(rows[0, 0], rows[-1, 0] + 1), 0, seeds, mean, square, None, ends, last)
                continue
            for row, (cell, first) in enumerate(rows.tolist()):
                size = min(width.seeds, seeds - first)
                ends = Summary(*(x[row, :size] for x in summary)) if asked.watched else None
                last = policies[row, :size] if asked.final else None
                if asked.whole:
                    yield Shard(cell, first, size, None, None, runs[row, :size], ends, last)
                else:
                    yield Shard(cell, first, size, runs[1][row], runs[2][row], None, ends, last)
        done += len(call)
        if progress:
            progress(done, len(blocks))
