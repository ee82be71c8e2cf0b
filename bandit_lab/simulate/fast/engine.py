"""From a grid to results: calls of a few items each, several in flight, results in a fixed order."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from bandit_lab.grpo import Learner
from bandit_lab.simulate.calls import in_order
from bandit_lab.simulate.cells import Cells, cast
from bandit_lab.simulate.fast.items import DEVICES, Items, run_items
from bandit_lab.simulate.fast.layout import GROUP, Rows, rows_of
from bandit_lab.simulate.fast.program import Program
from bandit_lab.simulate.fast.serve import describe, needs_blocks
from bandit_lab.simulate.results import Part, Summary

ROWS_PER_CALL = {"long": 4, "short": 32}
"""Items per call and device: long ones hold many chunks, short ones a single chunk."""


def run_cells(
    learner: Learner,
    dynamics: str,
    cells: Cells,
    *,
    steps: int,
    seeds: int,
    seed: int,
    first_seed: int,
    dtype: Any,
    watched: bool,
    whole: bool,
    generator: str,
    threads: int,
    progress: Callable[[int, int], None] | None,
) -> Iterator[Part]:
    """Every row's results, each cell's in the order of its seeds.

    whole: keep J of every run instead of moments, as is always done for a single seed. The rest: `simulate.engine.run`.
    """
    program, setting = describe(learner, dynamics, steps, watched, generator, dtype)
    lanes, whole = program.lanes, whole or seeds == 1
    many = seeds >= lanes or first_seed > 0
    per_row = 1 if seeds == 1 else lanes if many and not whole else GROUP
    groups = 0 if whole else lanes // per_row
    learner = cast(learner, dtype)
    root = jax.random.key_data(jax.random.key(seed))
    mesh = Mesh(np.array(jax.local_devices()), (DEVICES,))
    interval, calls = cells.hyper.refresh_interval, []
    for rows in rows_of(interval, needs_blocks(learner, interval), seeds, lanes, per_row):
        bound = replace(program, groups=groups, blocks=rows.blocks)
        most = ROWS_PER_CALL["long" if per_row == lanes else "short"] * mesh.size
        pieces = max(-(-len(rows.cell) // most), min(threads, len(rows.cell)))
        for piece in np.array_split(np.arange(len(rows.cell)), pieces):
            calls.append((bound, Rows(rows.cell[piece], rows.first[piece], rows.seeds[piece], rows.blocks), most))

    def one(call: tuple[Program, Rows, int]) -> Any:
        bound, rows, size = call
        items = _items(cells, rows, first_seed, size, dtype)
        return jax.tree.map(np.asarray, run_items(mesh, bound, learner, setting, root, items))

    for number, ((_, rows, _), results) in enumerate(zip(calls, in_order(one, calls, threads), strict=True), 1):
        yield from _parts(rows, results, per_row, whole)
        if progress:
            progress(number, len(calls))


def _items(cells: Cells, rows: Rows, first_seed: int, size: int, dtype: Any) -> Items:
    """Inputs of one call, padded with items without seeds to `size`."""
    hyper, missing = cells.hyper, size - len(rows.cell)
    cell, first = (np.pad(x, ((0, missing), (0, 0)), "edge") for x in (rows.cell, rows.first))
    count = np.pad(rows.seeds, ((0, missing), (0, 0))).astype(np.int32)
    return Items(
        learning_rate=hyper.learning_rate[cell].astype(dtype),
        momentum=hyper.momentum[cell].astype(dtype),
        kl_weight=hyper.kl_weight[cell].astype(dtype),
        interval=hyper.refresh_interval[cell[:, 0]].astype(np.int32),
        name=cells.name[cell],
        theta=cells.theta[cell].astype(dtype),
        fixed_point=cells.fixed_point[cell].astype(dtype),
        first=(first + first_seed).astype(np.uint32).astype(np.int32),
        seeds=count,
    )


def _parts(rows: Rows, results: Any, per_row: int, whole: bool) -> Iterator[Part]:
    """The results of one call, row by row, padding left out."""
    for item in range(len(rows.cell)):
        for row in np.flatnonzero(rows.seeds[item]):
            count = int(rows.seeds[item, row])
            lanes = slice(row * per_row, row * per_row + count)
            ends = results.ends
            if ends is not None:
                ends = Summary(*(x[item].reshape(-1)[lanes] for x in ends))
            key = int(rows.cell[item, row]), int(rows.first[item, row]), count
            if whole:
                yield Part(*key, None, None, results.mean[item][:, lanes].T, ends)
            else:
                yield Part(*key, results.mean[item, row], results.square[item, row], None, ends)
