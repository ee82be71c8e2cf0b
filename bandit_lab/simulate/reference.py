"""The reference path: the update as it is defined, one seed of one cell at a time, vectorised outside.

It runs in blocks of one fixed width, `Width.cells` settings x `Width.seeds` replicas, padded where a grid does not fill
them, with one compiled program per block and a block per device at a time. A cell's numbers therefore do not depend
on which other cells stand in the grid, on their order or on how the work is split: vectorisation at another width
would change the last bits.
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
from bandit_lab.grpo import Hyper, Learner, init, update
from bandit_lab.simulate.calls import in_order
from bandit_lab.simulate.cells import cast
from bandit_lab.simulate.devices import mesh_for, on_every
from bandit_lab.simulate.dynamics import DYNAMICS
from bandit_lab.simulate.request import Request
from bandit_lab.simulate.results import Part, Summary


@dataclass(frozen=True)
class Width:
    """Cells and seeds of one block. Part of what defines a result, bit for bit."""

    cells: int
    seeds: int


WIDTH = {"sampled": Width(cells=4, seeds=128), "mean_field": Width(cells=256, seeds=1), "finite_group": Width(256, 1)}


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


class _Block(NamedTuple):
    """Inputs of one block. cells, names, theta, reference: [c], settings, their names, start [c, D], fixed point's
    reward. seeds, counted: [s]."""

    cells: Hyper
    names: Any
    theta: Any
    reference: Any
    seeds: Any
    counted: Any


def _one_block(learner: Learner, dynamics: str, steps: int, curves: bool, key: Array, block: _Block):
    """(count, mean, M2), or J of every run with `curves`; and Summary."""

    def lane(hyper, name, theta, reference, seed):
        run_key = jax.random.fold_in(jax.random.fold_in(key, name), seed)
        return _one_run(learner, dynamics, steps, hyper, run_key, theta, reference)

    over_seeds = jax.vmap(lane, (None, None, None, None, 0))
    rewards, summary = jax.vmap(over_seeds, (0, 0, 0, 0, None))(*block[:-1])
    if curves:
        return rewards, summary
    weight = block.counted.astype(rewards.dtype)[:, None]
    count = jnp.sum(weight)
    mean = jnp.sum(rewards * weight, axis=1) / count
    square = jnp.sum((rewards - mean[:, None]) ** 2 * weight, axis=1)
    return (count, mean, square), summary


@partial(jax.jit, static_argnames=("mesh", "dynamics", "steps", "curves"))
def _blocks(mesh: Mesh, learner: Learner, dynamics: str, steps: int, curves: bool, key: Array, blocks: _Block):
    """One block per device, stacked along a leading axis."""

    def on_device(learner: Learner, key: Array, blocks: _Block):
        out = _one_block(learner, dynamics, steps, curves, key, jax.tree.map(lambda x: x[0], blocks))
        return jax.tree.map(lambda x: x[None], out)

    return on_every(mesh, on_device, (False, False, True))(learner, key, blocks)


def _pad(values: np.ndarray, start: int, width: int) -> np.ndarray:
    """`width` entries from `start`, the last one repeated where there are none left."""
    return values[np.minimum(np.arange(start, start + width), len(values) - 1)]


def run_cells(asked: Request, seed: int, progress: Callable[[int, int], None] | None) -> Iterator[Part]:
    """Results row by row, each cell's in the order of its seeds."""
    dynamics, cells, seeds = asked.dynamics, asked.cells, asked.seeds
    width, count = WIDTH[dynamics], len(cells.name)
    learner, key = cast(asked.learner, asked.dtype), jax.random.key(seed)
    places = [(c, s) for c in range(0, count, width.cells) for s in range(0, seeds, width.seeds)]
    mesh = mesh_for(len(places))
    calls = [places[i : i + mesh.size] for i in range(0, len(places), mesh.size)]

    def block(place: tuple[int, int]) -> _Block:
        hyper, names, theta, start = jax.tree.map(lambda x: _pad(x, place[0], width.cells), tuple(cells))
        index = np.arange(place[1], place[1] + width.seeds)
        return _Block(hyper, names, theta, start, (asked.first_seed + index).astype(np.int32), index < seeds)

    def one(call: list[tuple[int, int]]) -> Any:
        filled = [block(place) for place in call + call[-1:] * (mesh.size - len(call))]
        blocks = jax.tree.map(lambda *columns: np.stack(columns), *filled)
        return jax.tree.map(np.asarray, _blocks(mesh, learner, dynamics, asked.steps, asked.whole, key, blocks))

    done = 0
    for call, results in zip(calls, in_order(one, calls, asked.threads), strict=True):
        for number, (cell, first) in enumerate(call):
            runs, summary = jax.tree.map(lambda x, i=number: x[i], results)
            last = min(first + width.seeds, seeds)
            for row in range(min(width.cells, count - cell)):
                ends = Summary(*(x[row, : last - first] for x in summary)) if asked.watched else None
                if asked.whole:
                    yield Part(cell + row, first, last - first, None, None, runs[row, : last - first], ends)
                else:
                    yield Part(cell + row, first, last - first, runs[1][row], runs[2][row], None, ends)
        done += len(call)
        if progress:
            progress(done, len(places))
