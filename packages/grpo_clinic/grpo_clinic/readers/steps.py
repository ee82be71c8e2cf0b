"""The step of console rows that do not say it.

TRL prints a dictionary per log event, without the step, and the progress bars around it are out of order because
the two streams are buffered apart. What is left, best first:

1. a `step` in the row;
2. the learning rate: on a linear schedule (warm-up or decay) its differences are whole multiples of the one that
   belongs to one logging interval, so that even lost rows are noticed; the distance to zero, in the same unit,
   against the total number of steps gives the interval;
3. the number of rows against the last step that a progress bar showed;
4. the row's number, said to be just that.

Where the epoch goes back the run was taken up again from a checkpoint: the steps go back to the row that had the same
learning rate, else the same epoch.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from grpo_clinic.readers.record import Floats
from grpo_clinic.readers.table import LogTable


@dataclass
class Clues:
    """What the text around the rows tells: progress bars (last value per total), stated total, damaged rows."""

    damaged: int = 0
    stated_total: int = 0
    last: dict[int, int] = field(default_factory=dict)
    seen: Counter = field(default_factory=Counter)

    def bar(self, done: int, total: int) -> None:
        """A progress bar `done/total`."""
        if done <= total and (total in self.last or len(self.last) < 100):
            self.last[total] = max(self.last.get(total, 0), done)
            self.seen[total] += 1

    def total(self, steps: int) -> None:
        """The total number of optimiser steps, as the trainer announced it."""
        self.stated_total = steps

    @property
    def length(self) -> tuple[int, int]:
        """(total steps, last step shown) of the training's own bar; zeros if there was none."""
        total = self.stated_total or (self.seen.most_common(1)[0][0] if self.seen else 0)
        return total, self.last.get(total, 0)


def complete(table: LogTable, clues: Clues, log_every: int | None) -> tuple[LogTable, tuple[str, ...]]:
    """The table with a `step` on every row, and how it was found."""
    if "__row" not in table.keys:
        return table, ()
    aside = _flag(table, "__aside")
    summary = _flag(table, "__summary")
    logged = ~aside & ~summary & np.isfinite(table.column("__row"))
    rates = table.column("learning_rate")[logged] if "learning_rate" in table.keys else np.zeros(0)
    total, last = clues.length
    back = _taken_up(table, rates, logged)
    rows, repeated = int(logged.sum()), sum(row - again for row, again in back.items())
    first = rates[: min(back, default=rows)] if rates.size == rows else rates[:0]
    units = schedule_units(first)
    interval, how = _interval(units, first, rows - repeated + clues.damaged, total, last, log_every)
    if units is None or back:
        units = _positions(rates, rows, back)
        how += f"; the run was taken up again {len(back)} times, as its epochs tell" if back else ""
    elif (lost := int(units[-1] - units.size)) > 0:
        how += f"; the learning rate shows {lost} rows missing between those logged"
    step = np.full(table.rows, np.nan)
    step[logged] = units * interval
    return _with_steps(table, step, summary, last), (f"step: {how}",)


def _flag(table: LogTable, key: str) -> np.ndarray:
    return table.column(key) == 1 if key in table.keys else np.zeros(table.rows, bool)


def _taken_up(table: LogTable, rates: Floats, logged: np.ndarray) -> dict[int, int]:
    """Logged row at which the epoch goes back -> the earlier row that it repeats, in order; not to the very first."""
    if "epoch" not in table.keys:
        return {}
    epochs, found = table.column("epoch")[logged], {}
    for row in np.flatnonzero(np.diff(epochs) < 0) + 1:
        same = np.flatnonzero(np.abs(epochs[:row] - epochs[row]) <= 1e-9 * abs(epochs[row]))
        if rates.size == epochs.size:
            alike = np.flatnonzero((rates[:row] == rates[row]) & np.isin(np.arange(row), same))
            same = alike if alike.size else same
        if same.size and same[-1] > 0:
            found[int(row)] = int(same[-1])
    return found


def _positions(rates: Floats, rows: int, back: dict[int, int]) -> Floats:
    """Position of each row in logging intervals [rows], every piece of a run that was taken up again by itself."""
    units = np.arange(1, rows + 1, dtype=float)
    for start, end in pairwise([0, *back, rows]):
        own = schedule_units(rates[start:end]) if rates.size == rows else None
        units[start:end] = np.arange(1, end - start + 1) if own is None else own
        units[start:end] += units[back[start]] - 1 if start else 0
    return units


def schedule_units(rates: Floats) -> Floats | None:
    """Position of each row in logging intervals [n], from a piecewise linear schedule; None if it is not linear.

    Each monotone piece has its own unit, the commonest (median) difference; every difference must be a whole
    multiple of it to within a tenth.
    """
    if rates.size < 4 or not np.all(np.isfinite(rates)):
        return None
    with np.errstate(over="ignore"):
        differences = np.diff(rates)
    if not np.all(np.isfinite(differences)):
        return None
    gaps = np.ones(differences.size)
    for sign in (1, -1):
        piece = np.sign(differences) == sign
        if piece.sum() == 0:
            continue
        with np.errstate(over="ignore"):  # a log may hold any number that a float can be
            multiple = differences[piece] / np.median(differences[piece])
        if not np.all(np.isfinite(multiple)):
            return None
        rough = np.abs(multiple - np.round(multiple)) > 0.1
        rough[0 if sign < 0 else -1] = False  # the row across the peak belongs to neither piece
        if rough.any() or np.mean(np.round(multiple) == 1) < 0.5:
            return None
        gaps[piece] = np.maximum(np.round(multiple), 1)
    if np.any(differences == 0):
        return None
    return np.concatenate(([1.0], 1.0 + np.cumsum(gaps)))


def _interval(
    units: Floats | None, rates: Floats, rows: int, total: int, last: int, log_every: int | None
) -> tuple[float, str]:
    """(optimiser steps per row, how it was found)."""
    if log_every is not None:
        return log_every, f"row number times the given log_every = {log_every}"
    if units is not None and total and rates[-1] < rates[-2]:
        remaining = rates[-1] / np.median((rates[:-1] - rates[1:])[np.diff(rates) < 0])
        guess = total / (units[-1] + remaining)
        if round(guess) >= 1 and abs(guess - round(guess)) < 0.2 * round(guess):
            return round(guess), f"from the linear learning rate and {total} steps in all: one row per {round(guess)}"
    if rows and last:
        guess = max(round(last / rows), 1)
        if last // guess == rows:
            return guess, f"from {rows} rows in {last} steps shown by the progress bar: one row per {guess}"
    return 1.0, "the number of the row, because the log does not tell its logging interval (give log_every)"


def _with_steps(table: LogTable, step: Floats, summary: np.ndarray, last: int) -> LogTable:
    """A copy of the table with the step of every row; the closing summary belongs to the last step, if known."""
    previous = 0.0
    for row in range(table.rows):
        if summary[row]:
            step[row] = max(float(last), previous + 1) if last else previous + 1
        elif not np.isfinite(step[row]):
            step[row] = previous
        previous = step[row]
    return table.with_steps(step)
