"""From a grid to results: calls of a few items each, several in flight, results in a fixed order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from bandit_lab._checks import require
from bandit_lab.grpo import Hyper, Learner
from bandit_lab.simulation.cells import Cells, cast, prepare
from bandit_lab.simulation.fast.items import ItemResults, Items, run_items
from bandit_lab.simulation.fast.layout import GROUP, PART, Rows, rows_of
from bandit_lab.simulation.fast.program import NO_BANDIT, BanditTables, Program
from bandit_lab.simulation.fast.random_bits import DEFAULT_GENERATOR
from bandit_lab.simulation.fast.serve import describe, needs_blocks, unsupported_reason
from bandit_lab.simulation.programs import in_order, mesh_for
from bandit_lab.simulation.results import Request, Shard, Summary

ITEMS = {"long": 4, "short": 32}
"""Items per call and device: long ones hold many chunks, short ones a single chunk."""


class _Call(NamedTuple):
    """One call to the devices: what is compiled, which rows it holds, its inputs, and the rows' places in them."""

    program: Program
    rows: Rows
    items: Items
    places: np.ndarray | slice


@dataclass(frozen=True)
class _Calls:
    """Calls that are ready to run, again and again with other root keys.

    learner: without its bandit, whose numbers are in `tables`. per_row: lanes of a row.
    """

    mesh: Mesh
    learner: Learner
    tables: BanditTables
    calls: list[_Call]
    per_row: int

    def results(self, seed: int, threads: int) -> Iterator[tuple[_Call, ItemResults]]:
        """Every call with its rows' results as host arrays, in order."""

        def one(call: _Call) -> tuple[_Call, ItemResults]:
            out = run_items(self.mesh, call.program, self.learner, self.tables, seed, call.items)
            return call, jax.tree.map(lambda x: np.asarray(x)[call.places], out)

        return in_order(one, self.calls, threads)


def _plan(asked: Request, keep: str, generator: str) -> _Calls:
    """Lay a grid out in calls.

    keep: `moments` of every cell over its seeds, `runs` (J of every run), or `ensemble`: moments over all cells and
    seeds together.
    """
    learner, cells, seeds, dtype = asked.learner, asked.cells, asked.seeds, asked.dtype
    program, tables = describe(learner, asked.dynamics, asked.steps, asked.watched, generator, dtype)
    program, lanes, hyper = replace(program, final=asked.final), program.lanes, cells.hyper
    whole_row = min(lanes, PART)  # a wide chunk holds several: a row does not reach over units of seeds
    few = seeds < whole_row and asked.first_seed == 0
    per_row = 1 if seeds == 1 else GROUP if few or keep == "runs" else whole_row
    long = keep == "ensemble" or (keep == "moments" and per_row == lanes)
    groups = {"moments": lanes // per_row, "runs": 0, "ensemble": 1}[keep]
    mesh, calls = mesh_for(), []
    blocks = needs_blocks(learner, hyper.refresh_interval)
    for rows in rows_of(hyper.refresh_interval, blocks, seeds, lanes, per_row, PART if long else lanes):
        bound = replace(program, groups=groups, per_row=per_row, blocks=rows.blocks)
        per_device = 1 if lanes > PART else ITEMS["long" if long else "short"]
        most, count = per_device * mesh.size, len(rows.cell)
        pieces = max(-(-count // most), min(asked.threads, -(-count // mesh.size)))
        for piece in np.array_split(np.arange(count), pieces):
            part = Rows(rows.cell[piece], rows.first[piece], rows.seeds[piece], rows.blocks)
            places = _places(len(piece), mesh.size, per_device)
            calls.append(_Call(bound, part, _items(cells, part, places, asked.first_seed, most, dtype), places))
    bare = replace(learner, bandit=NO_BANDIT, schedule=cast(learner.schedule, dtype))
    return _Calls(mesh, bare, tables, calls, per_row)


def run_cells(
    asked: Request, generator: str, seed: int, progress: Callable[[int, int], None] | None
) -> Iterator[Shard]:
    """Every row's results, each cell's in the order of its seeds. A single seed is always kept whole."""
    whole = asked.whole or asked.seeds == 1
    ready = _plan(asked, "runs" if whole else "moments", generator)
    for number, (call, results) in enumerate(ready.results(seed, asked.threads), 1):
        yield from _parts(call.rows, results, ready.per_row, whole, max(call.program.contexts, 1))
        if progress:
            progress(number, len(ready.calls))


def ensemble(
    learner: Learner,
    dynamics: str,
    cells: Hyper,
    *,
    steps: int,
    seeds: int = 1,
    rng: str = DEFAULT_GENERATOR,
    threads: int = 2,
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """A function from a seed to mean and population variance [T + 1] of J over all cells and seeds together.

    Everything but the runs themselves is done once. Raises ValueError where the fast path does not serve.
    """
    reason = unsupported_reason(learner, dynamics)
    require(reason is None, "dynamics", f"a setting that the fast path serves ({reason})", dynamics)
    asked = Request(learner, dynamics, prepare(learner, cells, np.float32), steps, seeds, np.float32, threads=threads)
    ready = _plan(asked, "ensemble", rng)

    def moments(seed: int) -> tuple[np.ndarray, np.ndarray]:
        parts = [results for _, results in ready.results(seed, threads)]
        size, mean, square = (np.concatenate([p[i] for p in parts])[:, 0].astype(float) for i in range(3))
        total, centre = size.sum(), size @ mean / size.sum()
        return centre, (square.sum(axis=0) + size @ (mean - centre) ** 2) / total

    return moments


def _places(count: int, devices: int, per_device: int) -> np.ndarray | slice:
    """Places of a call's items among its inputs: dealt out to the devices in turn."""
    if devices == 1:
        return slice(count)
    index = np.arange(count)
    return index % devices * per_device + index // devices


def _items(cells: Cells, rows: Rows, places: np.ndarray | slice, first_seed: int, size: int, dtype: Any) -> Items:
    """Inputs of one call; the places that are left repeat the last item without seeds."""
    hyper, index = cells.hyper, np.full(size, len(rows.cell) - 1)
    index[places] = np.arange(len(rows.cell))
    cell, first, count = rows.cell[index], rows.first[index], np.zeros((size, rows.cell.shape[1]), np.int32)
    count[places] = rows.seeds
    return Items(
        learning_rate=hyper.learning_rate[cell].astype(dtype),
        momentum=hyper.momentum[cell].astype(dtype),
        kl_weight=hyper.kl_weight[cell].astype(dtype),
        interval=hyper.refresh_interval[cell[:, 0]],
        name=cells.name[cell],
        theta=cells.theta[cell].astype(dtype),
        fixed_point=cells.fixed_point[cell].astype(dtype),
        first=(first + first_seed).astype(np.uint32).astype(np.int32),
        seeds=count,
    )


def _parts(rows: Rows, results: Any, per_row: int, whole: bool, contexts: int) -> Iterator[Shard]:
    """The results of one call, row by row; rows without seeds left out. contexts: X of the policies."""
    for item in range(len(rows.cell)):
        for row in np.flatnonzero(rows.seeds[item]):
            count = int(rows.seeds[item, row])
            lanes = slice(row * per_row, row * per_row + count)
            ends = results.ends
            if ends is not None:
                ends = Summary(*(x[item].reshape(-1)[lanes] for x in ends))
            policies = None
            if results.policies is not None:
                policies = results.policies[item].reshape(-1, contexts, results.policies.shape[-1] // contexts)[lanes]
            key = int(rows.cell[item, row]), int(rows.first[item, row]), count
            if whole:
                yield Shard(*key, None, None, results.mean[item][:, lanes].T, ends, policies)
            else:
                yield Shard(*key, results.mean[item, row], results.square[item, row], None, ends, policies)
