"""Several runs in one file, one after the other: a script that was started again, arms that were appended.

They are runs of their own, never one run whose rows are averaged step by step. A step that goes back a little is a
restart from a checkpoint, or rows out of order, and no new run.
"""

import numpy as np

from grpo_clinic.readers import aliases
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import Floats
from grpo_clinic.readers.table import LogTable, RowMask
from grpo_clinic.readers.which import View

_FEWEST = 8
"""Steps of a run; a start that came to fewer is left out where a longer one follows."""
_BEGINNING = 0.02
"""Share of the steps before it that counts as their beginning."""
_MOST = 50
"""Runs in one file; a counter that starts anew more often counts batches of an epoch."""


def runs_of(table: LogTable, options: ReadOptions) -> list[LogTable]:
    """The runs of a table in their order; the table itself where it holds one."""
    try:
        view = View(table, options)
        rows = view.pool & table.has(view.reward()[0])
        view.count_steps(rows)
        step = view.step
    except ValueError:  # told where the curve is made
        return [table]
    starts = _starts(step, np.flatnonzero(rows & np.isfinite(step)))
    if not 1 < len(starts) <= _MOST or _counts_epochs(table, starts, rows):
        return [table]
    ends = [*starts[1:], table.rows]
    long = [
        (first, last) for first, last in zip(starts, ends, strict=True) if _steps(step, rows, first, last) >= _FEWEST
    ]
    return [table.part(first, last) for first, last in long] if long else [table]


def _starts(step: Floats, places: np.ndarray) -> list[int]:
    """Rows at which the step of the given rows goes back to the beginning; the first row is always one."""
    starts, first, highest = [0], None, -np.inf
    for place in places:
        now = step[place]
        if first is None:
            first = now
        elif now < highest and now <= first + _BEGINNING * (highest - first) and highest - first >= 1:
            starts.append(int(place))
            first, highest = now, -np.inf
        highest = max(highest, now)
    return starts


def _steps(step: Floats, rows: RowMask, first: int, last: int) -> int:
    inside = step[first:last][rows[first:last]]
    return int(np.unique(inside[np.isfinite(inside)]).size)


def _counts_epochs(table: LogTable, starts: list[int], rows: RowMask) -> bool:
    """Whether an epoch, or another step, goes on rising from one start to the next: then it is one run."""
    keys = [key for key in table.keys if "epoch" in key.lower() or any(aliases.candidates("step", [key]))]
    for key in keys:
        column = table.column(key)
        segments = [column[start:][rows[start:] & np.isfinite(column[start:])] for start in starts]
        firsts = [values[0] for values in segments if values.size]
        if len(firsts) == len(starts) and np.all(np.diff(firsts) > 0):
            return True
    return False
