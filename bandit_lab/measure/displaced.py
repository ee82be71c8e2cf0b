"""Runs of the full nonlinear update that start a small displacement away from a fixed point.

Two readings of such runs serve two detectors that share nothing else: the growth of the displacement (`measure.growth`)
and the displacement itself as a time series (`measure.onset`). One program advances a block of lanes by a number of
steps, both fixed, and hands out two numbers per lane and step. A lane whose detector has seen enough takes the next
cell. Blocks stay full, and nothing is recompiled for another length. A cell's result does not depend on its neighbours:
every lane does the same arithmetic wherever it stands. Lanes may hold different bandits of one shape, so that many
bandits share one program.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from threading import Event
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from bandit_lab._types import Array
from bandit_lab.bandits import Bandit
from bandit_lab.grpo import Hyper, Learner, init
from bandit_lab.simulation import DYNAMICS
from bandit_lab.simulation.cells import typed_cells
from bandit_lab.simulation.one_kernel import as_one, compiler_options, one_kernel
from bandit_lab.simulation.programs import mesh_for, on_every
from bandit_lab.simulation.rollout import Stride, rollout

WIDTH = {"mean_field": 256, "finite_group": 32}  # lanes of a block: a group law costs about G times a mean field
COSTLY_WIDTH = 8  # of a bandit whose policy is costly: empty lanes cost as much as full ones, and few rows are usual
STEPS = 128  # by which a block is advanced before its lanes are looked at
THREADS = os.cpu_count() or 1  # blocks at a time; no result depends on it


class DisplacedRuns(NamedTuple):
    """What is run [C]: settings, fixed points [C, D], parameters at step 0 [C, D], and what is read off.

    projector: [C, D]; the reading at step t is projector . (theta_t - fixed). bandits: the learner's bandit with a
    leading axis [C] on every array, one bandit per cell, or None: all have the learner's. space: [C, D, D] projectors
    on what counts of a displacement's size, or None: all of it.
    """

    cells: Hyper
    fixed: np.ndarray
    start: np.ndarray
    projector: np.ndarray
    bandits: Any = None
    space: np.ndarray | None = None


def width_of(learner: Learner, dynamics: str) -> int:
    """Lanes of a block on one device."""
    return COSTLY_WIDTH if learner.bandit.costly else WIDTH[dynamics]


Watch = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(cells [n], first step [n], readings [n, STEPS], sizes [n, STEPS]) -> whether each cell has been seen enough [n]."""


def stack_bandits(bandits: Sequence[Bandit]) -> Any:
    """Bandits of one shape as one, every array with a leading axis [C], as `DisplacedRuns` and boundaries take it."""
    return jax.tree.map(lambda *each: np.stack(each), *bandits)


def _change_weight(learner: Learner, hyper: Hyper) -> Array:
    """A step is about 1/time scale of the displacement: weighted so, neither part of the size dips when it cycles."""
    stride = jnp.maximum(hyper.refresh_interval, 1) if learner.staleness.whole_interval else 1
    return stride + 1 / jnp.sqrt(1 - hyper.momentum)


@cache
def _program(mesh: Mesh, dynamics: str, one: bool) -> Callable[..., Any]:
    """(learner, cells, fixed, projector, state, space, bandits) [W] -> (state, readings [W, STEPS], sizes [W, STEPS]),
    jitted; W lanes on every device. one: whether it is compiled as one kernel.

    size: |theta_t - fixed|^2 + |weight (theta_{t+1} - theta_t)|^2, see `_change_weight`.
    """

    def advance(
        learner: Learner, cells: Hyper, fixed: Array, projector: Array, state: Any, space: Any, bandits: Any
    ) -> Any:
        key = jax.random.key(0)
        own = DYNAMICS[dynamics](learner) if bandits is None else None  # its constants are made outside of the kernel

        def lane(hyper: Hyper, fixed: Array, projector: Array, state: Any, space: Any, bandit: Any) -> Any:
            gradient = own or DYNAMICS[dynamics](replace(learner, bandit=bandit))
            weight = _change_weight(learner, hyper)

            def read(seen: Stride) -> tuple[Array, Array]:
                away, change = seen.before.theta - fixed, seen.after.theta - seen.before.theta
                counted = (away, change) if space is None else (away @ space, change @ space)
                size = jnp.sum(counted[0] ** 2) + jnp.sum((weight * counted[1]) ** 2)
                return jnp.sum(projector * away), size

            return rollout(learner, gradient, hyper, key, state, STEPS, observe=read)[:2]

        def lanes() -> Any:  # closes over its inputs: XLA:CPU aborts on an input of the kernel that nothing reads
            return jax.vmap(lane)(cells, fixed, projector, state, space, bandits)

        state, (reading, size) = one_kernel(lanes) if one else lanes()
        return state, reading, size

    everywhere = on_every(mesh, advance, (False, True, True, True, True, True, True))
    return jax.jit(everywhere, compiler_options=compiler_options() if one else {})


def _run(mesh: Mesh, dynamics: str, learner: Learner, *args: Any) -> Any:
    """The program on a block. A ring of old parameters does not compile as one kernel. XLA:CPU aborts on the
    tables of finite groups if every lane makes its own."""
    kind = "displaced", dynamics, jax.tree.structure(learner)
    tables = args[-1] is not None and dynamics != "mean_field"
    fits = learner.staleness.block_synchronous and not tables
    return as_one(partial(_program, mesh, dynamics), kind, learner, *args, fits=fits)


@jax.jit
def _begin(learner: Learner, cells: Hyper, start: Array) -> Any:
    """States [W] before step 0."""
    return jax.vmap(lambda hyper, theta: init(learner, hyper, theta))(cells, start)


def run_displaced(learner: Learner, dynamics: str, lanes: DisplacedRuns, watch: Watch) -> None:
    """Run every cell, in their order, until `watch` has seen enough of it; several sets of blocks at a time, each
    with one block on every device."""
    cells = typed_cells(learner, lanes.cells, np.float64)
    fixed, start, projector = (np.ascontiguousarray(x, np.float64) for x in lanes[1:4])
    lanes = DisplacedRuns(cells, fixed, start, projector, lanes.bandits, lanes.space)
    waiting, stopped = iter(range(len(lanes.start))), Event()
    width = width_of(learner, dynamics)
    mesh = mesh_for(-(-len(lanes.start) // width))
    width *= mesh.size

    def work() -> None:
        block = _Blocks(mesh, learner, dynamics, width, lanes)
        try:
            while not stopped.is_set() and block.fill(waiting):
                block.advance(watch)
        except BaseException:
            stopped.set()  # the others end after their next look
            raise

    sets = min(max(1, THREADS // mesh.size), -(-len(lanes.start) // width))
    with ThreadPoolExecutor(sets) as pool:
        running = [pool.submit(work) for _ in range(sets)]
        try:
            for each in running:
                each.result()
        finally:  # an interrupt ends the others, too
            stopped.set()


class _Blocks:
    """`width` lanes over all devices. who: [W] the cell in each, -1 in an empty one (it goes on with what it had)."""

    def __init__(self, mesh: Mesh, learner: Learner, dynamics: str, width: int, lanes: DisplacedRuns) -> None:
        self.mesh, self.learner, self.lanes = mesh, learner, lanes
        self.dynamics = dynamics
        self.who = np.full(width, -1)
        self.rows = np.zeros(width, int)  # as `who`, but always a cell
        self.state: Any = None

    def fill(self, waiting: Any) -> bool:
        """Put waiting cells into empty lanes. Returns whether any lane is at work."""
        empty = np.flatnonzero(self.who < 0)
        new = np.fromiter((cell for _, cell in zip(empty, waiting, strict=False)), int)
        if len(new):
            taken = empty[: len(new)]
            self.who[taken] = self.rows[taken] = new
            if self.state is None:
                self.rows[self.who < 0] = new[-1]
            begun = self._begin(self.rows)
            self.state = begun if self.state is None else _replace(self.state, begun, taken)
        return bool(np.any(self.who >= 0))

    def _begin(self, rows: np.ndarray) -> Any:
        cells = Hyper(*(column[rows] for column in self.lanes.cells))
        return _begin(self.learner, cells, self.lanes.start[rows])

    def advance(self, watch: Watch) -> None:
        """`STEPS` steps; lanes that have been seen enough become empty."""
        rows, lanes = self.rows, self.lanes
        cells = Hyper(*(column[rows] for column in lanes.cells))
        first = np.asarray(self.state.step)
        bandits = jax.tree.map(lambda x: x[rows], lanes.bandits)
        space = None if lanes.space is None else lanes.space[rows]
        inputs = cells, lanes.fixed[rows], lanes.projector[rows], self.state, space, bandits
        self.state, *seen = _run(self.mesh, self.dynamics, self.learner, *inputs)
        busy = np.flatnonzero(self.who >= 0)
        readings, sizes = (np.asarray(x)[busy] for x in seen)
        done = watch(self.who[busy], first[busy], readings, sizes)
        self.who[busy[done]] = -1


def _replace(state: Any, begun: Any, taken: np.ndarray) -> Any:
    """`state` with the lanes `taken` from `begun`."""

    def put(old: Any, new: Any) -> np.ndarray:
        merged = np.array(old)
        merged[taken] = np.asarray(new)[taken]
        return merged

    return jax.tree.map(put, state, begun)


def samples(
    first: np.ndarray, begin: np.ndarray, stride: np.ndarray, end: np.ndarray, among: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(lane, column, step) of every sample in a block's outputs, lane by lane: steps begin, begin + stride, ... < end.

    first, begin, stride, end: [n] steps, the first one of the block's outputs and of the samples. among: [n] lanes that
    count.
    """
    step = first[:, None] + np.arange(STEPS)
    chosen = (step >= begin[:, None]) & (step < end[:, None]) & ((step - begin[:, None]) % stride[:, None] == 0)
    lane, column = np.nonzero(chosen & among[:, None])
    return lane, column, step[lane, column]
