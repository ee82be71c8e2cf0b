"""One logged column made clean: missing values out, repeated steps averaged, copies and excess points thinned.

Forward-filled values: a quantity logged every k steps but written at every step looks like a staircase. Left in, the
k - 1 copies make the noise look k times smaller than it is. A staircase is told from a coarse but honest reward
(multiples of 1/G repeat by chance too) by *where* the value changes: at multiples of one k, always.
"""

from dataclasses import replace
from typing import cast

import numpy as np

from grpo_clinic.readers import aliases
from grpo_clinic.readers.options import UNITS, ReadOptions
from grpo_clinic.readers.record import Curve, Floats, Series, StepUnit
from grpo_clinic.readers.table import RowMask

_FEWEST_CHANGES = 5
"""Changes of value that a staircase has at least."""
MOST = 2000
"""Points above which neighbours are averaged: a law has at most four numbers, and the time of a fit grows with them."""


def _stride(value: Floats) -> int:
    """Rows per tread of the staircase `value` [n]; 1 if it is none.

    Chance repeats of an honest series put the changes at k, 2k, 3k, ... with probability about k^-changes. So at
    least five changes are asked for, and all but 2 % of the distances must be multiples of the commonest one.
    """
    changes = np.flatnonzero(value[1:] != value[:-1]) + 1
    if changes.size < _FEWEST_CHANGES:
        return 1
    gaps = np.diff(changes)
    tread = int(np.bincount(gaps).argmax())
    if tread < 2 or np.mean(gaps % tread == 0) < 0.98 or changes.size * tread < 0.5 * value.size:
        return 1
    return tread


def _first_of_each_tread(value: Floats, tread: int) -> np.ndarray:
    """Indices [m] of the rows at which a new value was logged, one per tread, the first one included."""
    changes = np.flatnonzero(value[1:] != value[:-1]) + 1
    phase = int(np.bincount(changes % tread, minlength=tread).argmax())
    indices = np.arange(phase, value.size, tread)
    return indices if phase == 0 else np.concatenate(([0], indices))


def series_of(
    step: Floats, value: Floats, rows: RowMask, key: str, *, thin: bool, largest: bool = False
) -> tuple[Series, Floats]:
    """(series, steps [m] without a finite value) of the chosen rows of a column [rows].

    Of rows that share a step the mean or the `largest` counts, without NaN and infinite values; a staircase is thinned
    to a row per tread.
    """
    rows = rows & np.isfinite(step)
    usable = rows & np.isfinite(value)
    notes = []
    lost = np.unique(step[rows & ~usable])
    if (rows & ~usable).any():
        notes.append(f"{int((rows & ~usable).sum())} missing or non-finite rewards left out")
    steps, place, counts = np.unique(step[usable], return_inverse=True, return_counts=True)
    means = np.zeros(steps.size)
    np.add.at(means, place, value[usable] / counts[place])
    if largest:
        np.maximum.at(means, place, value[usable])
    repeated = int((counts > 1).sum())
    if repeated:
        back = int((np.diff(step[usable]) < 0).sum())
        restart = f"; the step goes back {back} times (a restarted run?)" if 0 < back <= 0.1 * steps.size else ""
        notes.append(f"{repeated} steps with several rows each were averaged (up to {counts.max()} rows){restart}")
    lost, tread = np.setdiff1d(lost, steps), _stride(means) if thin else 1
    if tread > 1:
        firsts = _first_of_each_tread(means, tread)
        thinning = f"{steps.size} rows thinned to the {firsts.size} logged ones, one in {tread}"
        notes.append(f"'{key}' is forward-filled: {thinning}")
        steps, means = steps[firsts], means[firsts]
    return Series(steps, means, key, tuple(notes)), lost


def unit_of(step_key: str, framework: str, options: ReadOptions) -> StepUnit:
    """The unit of one step: as given, as the step key's name says, or as the trainer documents."""
    if options.step_unit is not None:
        return cast(StepUnit, UNITS[options.step_unit])
    named = aliases.KEY_UNIT.get(aliases.canonical(step_key))
    return cast(StepUnit, named or aliases.STEP_UNIT.get(framework, "unknown"))


def at_most(curve: Curve, points: int = MOST) -> Curve:
    """The curve with as many neighbours averaged as it takes to have at most `points`; the same one if it is short.

    A last block that is not full is left out. Step and reward of a block are the means of its points.
    """
    block = -(-curve.step.size // points)
    if block <= 1:
        return curve
    size = curve.step.size // block * block
    step, value = (np.asarray(values[:size].reshape(-1, block).mean(axis=1)) for values in (curve.step, curve.reward))
    note = f"{curve.step.size} points averaged over {block} neighbours each"
    series = replace(curve.reward_series, step=step, value=value, notes=(*curve.reward_series.notes, note))
    return replace(curve, reward_series=series, counted=curve.step.size, notes=(*curve.notes, note))
