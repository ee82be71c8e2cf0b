"""Cells and seeds cut into items of lanes.

A row is a set of neighbouring lanes with one setting: consecutive seeds of one cell. An item is one chunk of L lanes
made of rows side by side, or several chunks, one after the other: of one row that runs on, or (an ensemble over cells)
of further rows. All rows of an item share the refresh interval. What a lane computes does not depend on the lanes
beside it, so the layout is free; it only decides how moments are gathered, and that is fixed by the number of seeds of
a cell, not by the grid.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PART = 2048
"""Seeds of one cell that make an item: their moments are pooled on the device."""
GROUP = 64
"""Lanes of the smallest row."""
_LARGE = 8
"""Arms or parameters of a policy."""
WIDE = 2**16
"""Lanes of a chunk on an accelerator."""
WIDTH = {
    "fast_part_seeds": PART,
    "fast_group_seeds": GROUP,
    "fast_lanes_two_fixed_arms": 512,
    "fast_lanes_two_noisy_arms": 256,
    "fast_lanes_few_cells": 128,
    "fast_lanes_many_cells": 64,
    "fast_lanes_small_policy": 256,
    "fast_lanes_policy": 128,
    "fast_lanes_costly_policy": 64,
    "fast_lanes_accelerator": WIDE,
}
"""What defines results of the fast path, bit for bit, beside the settings."""


def lanes_for(platform: str, arms: int, columns: int, two_arms: bool) -> int:
    """Lanes L of a chunk. On a CPU its state stays in the first cache; an accelerator has to be filled at every step.

    platform: `jax.default_backend()`. arms, columns, two_arms: see `Program`. Not measured on an accelerator.
    """
    if platform != "cpu":
        return WIDTH["fast_lanes_accelerator"]
    if two_arms:
        return WIDTH["fast_lanes_two_fixed_arms"] if columns == 1 else WIDTH["fast_lanes_two_noisy_arms"]
    return WIDTH["fast_lanes_few_cells"] if arms * columns <= 32 else WIDTH["fast_lanes_many_cells"]


def lanes_for_policy(platform: str, cells: int, size: int, costly: bool) -> int:
    """The same for a policy with parameters of its own. cells: K times columns. size: the larger one of X K and D.
    costly: see `Bandit`. Of a large policy so many arrays are in use at once that fewer lanes fill the first cache."""
    if platform != "cpu":
        return WIDTH["fast_lanes_accelerator"]
    if costly or size > _LARGE:
        return WIDTH["fast_lanes_costly_policy"]
    few = cells <= 8 and size <= 8
    return WIDTH["fast_lanes_small_policy"] if few else WIDTH["fast_lanes_policy"]


class Rows(NamedTuple):
    """I items of R rows. cell, first, seeds: [I, R] grid position, first replica and number of them (0: nothing there).
    blocks: whether they need the inner loop."""

    cell: np.ndarray
    first: np.ndarray
    seeds: np.ndarray
    blocks: bool


def rows_of(
    interval: np.ndarray, blocks: np.ndarray, seeds: int, lanes: int, per_row: int, per_item: int
) -> Iterator[Rows]:
    """All rows of a grid, one `Rows` with and one without inner loop.

    interval, blocks: [C]. per_row: lanes of a row; with a whole chunk per row, the row runs on over chunks. per_item:
    lanes of an item over all its chunks.
    """
    per_item = max(per_item, lanes)
    seeds_per_row, width = (per_item, 1) if per_row == lanes else (per_row, per_item // per_row)
    starts = np.arange(0, seeds, seeds_per_row)
    for need in (False, True):
        chosen = np.flatnonzero(blocks == need)
        if len(chosen) == 0:
            continue
        parts = []
        for value in np.unique(interval[chosen]):
            mine = chosen[interval[chosen] == value]
            cell, first = np.repeat(mine, len(starts)), np.tile(starts, len(mine))
            parts.append(_fill(cell, first, np.minimum(seeds - first, seeds_per_row), width))
        cell, first, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        yield Rows(cell, first, count, need)


def _fill(cell: np.ndarray, first: np.ndarray, count: np.ndarray, width: int) -> tuple[np.ndarray, ...]:
    """Columns [n] as [ceil(n / width), width]; the places left over repeat the last cell with no seeds."""
    missing = -len(cell) % width
    cell, first = np.pad(cell, (0, missing), "edge"), np.pad(first, (0, missing), "edge")
    return tuple(column.reshape(-1, width) for column in (cell, first, np.pad(count, (0, missing))))
