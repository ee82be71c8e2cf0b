"""Cells and seeds cut into items of lanes.

A row is a set of neighbouring lanes with one setting: consecutive seeds of one cell. An item is one chunk of L lanes
made of R rows, or (R = 1) several chunks of one row, one after the other. All rows of an item share the refresh
interval. What a lane computes does not depend on the lanes beside it, so the layout is free; it only decides how
moments are gathered, and that is fixed by the number of seeds of a cell, not by the grid.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PART = 2048
"""Seeds of one cell that make an item: their moments are pooled on the device."""
GROUP = 64
"""Lanes of the smallest row."""


class Rows(NamedTuple):
    """I items of R rows. cell, first, seeds: [I, R] grid position, first replica and number of them (0: nothing there).
    blocks: whether they need the inner loop."""

    cell: np.ndarray
    first: np.ndarray
    seeds: np.ndarray
    blocks: bool


def rows_of(interval: np.ndarray, blocks: np.ndarray, seeds: int, lanes: int, per_row: int) -> Iterator[Rows]:
    """All rows of a grid, one `Rows` with and one without inner loop.

    interval, blocks: [C]. per_row: lanes of a row; with a whole chunk per row, an item is up to PART seeds of one cell.
    """
    per_item = max(PART, lanes) if per_row == lanes else per_row
    starts = np.arange(0, seeds, per_item)
    for need in (False, True):
        chosen = np.flatnonzero(blocks == need)
        if len(chosen) == 0:
            continue
        parts = []
        for value in np.unique(interval[chosen]):
            mine = chosen[interval[chosen] == value]
            cell, first = np.repeat(mine, len(starts)), np.tile(starts, len(mine))
            parts.append(_fill(cell, first, np.minimum(seeds - first, per_item), lanes // per_row))
        cell, first, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        yield Rows(cell, first, count, need)


def _fill(cell: np.ndarray, first: np.ndarray, count: np.ndarray, width: int) -> tuple[np.ndarray, ...]:
    """Columns [n] as [ceil(n / width), width]; the places left over repeat the last cell with no seeds."""
    missing = -len(cell) % width
    cell, first = np.pad(cell, (0, missing), "edge"), np.pad(first, (0, missing), "edge")
    return tuple(column.reshape(-1, width) for column in (cell, first, np.pad(count, (0, missing))))
