"""The step of console rows that do not say it.

TRL prints a dictionary per log event, without the step. The progress bars around it are out of order because the two
streams are buffered apart. What is left, best first: a `step` in the row; a linear learning rate; the number of rows
against the last step that a progress bar showed; the row's number, reported as just that. Differences of the rate are
whole multiples of that of one logging interval, so that even lost rows are noticed. Its distance to zero against the
steps in all gives the interval.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from grpo_clinic.readers.record import Floats
from grpo_clinic.readers.table import LogTable


@dataclass
class Clues:
    """Clues in the text around the rows: progress bars (last value per total), stated total, damaged rows."""

    damaged: int = 0
    stated_total: int = 0
    last: dict[int, int] = field(default_factory=dict)
    seen: Counter = field(default_factory=Counter)

    def bar(self, done: int, total: int) -> None:
        """A progress bar `done/total`."""
        if done <= total and (total in self.last or len(self.last) < 100):
            self.last[total] = max(self.last.get(total, 0), done)
            self.seen[total] += 1

    @property
    def length(self) -> tuple[int, int]:
        """(total steps, last step shown) of the training's own bar; zeros if there was none."""
        total = self.stated_total or (self.seen.most_common(1)[0][0] if self.seen else 0)
        return total, self.last.get(total, 0)


def complete(table: LogTable, clues: Clues, log_every: int | None) -> tuple[LogTable, tuple[str, ...]]:
    """The table with a `step` on every row, and how it was found."""
    if "__row" not in table.keys:
        return table, ()
    aside, summary = (table.column(key) == 1 for key in ("__aside", "__summary"))
    logged = ~aside & ~summary & np.isfinite(table.column("__row"))
    rows, (total, last) = int(logged.sum()), clues.length
    rates = table.column("learning_rate")[logged] if "learning_rate" in table.keys else np.zeros(0)
    units = _schedule_units(rates)
    interval, how = _interval(units, rates, rows + clues.damaged, total, last, log_every)
    if units is not None and (lost := int(units[-1] - units.size)) > 0:
        how += f"; the learning rate shows {lost} rows missing between those logged"
    step = np.full(table.rows, np.nan)
    step[logged] = (np.arange(1.0, rows + 1) if units is None else units) * interval
    previous = 0.0
    for row in range(table.rows):
        if summary[row]:  # the closing summary belongs to the last step, if known
            step[row] = max(float(last), previous + 1)
        elif not np.isfinite(step[row]):
            step[row] = previous
        previous = step[row]
    return table.with_steps(step), (f"step: {how}",)


def _schedule_units(rates: Floats) -> Floats | None:
    """Position of each row in logging intervals [n], from a piecewise linear schedule; None if it is not linear.

    Each monotone piece has its own unit, the commonest (median) difference; every difference must be a whole
    multiple of it to within a tenth.
    """
    if rates.size < 4:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # a log may hold any number that a float can be
        differences = np.diff(rates)
        gaps = np.full(differences.size, np.nan)
        for sign in (1, -1):
            piece = np.sign(differences) == sign
            if piece.any():
                multiple = differences[piece] / np.median(differences[piece])
                rough = ~(np.abs(multiple - np.round(multiple)) <= 0.1)
                rough[0 if sign < 0 else -1] = False  # the row across the peak belongs to neither piece
                if rough.any() or np.mean(np.round(multiple) == 1) < 0.5:
                    return None
                gaps[piece] = np.maximum(np.round(multiple), 1)
    return np.concatenate(([1.0], 1.0 + np.cumsum(gaps))) if np.isfinite(gaps).all() else None


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
