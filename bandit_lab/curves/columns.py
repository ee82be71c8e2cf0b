"""One logged column made clean: missing values out, repeated steps averaged, forward-filled copies thinned."""

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bandit_lab.curves import aliases, staircase
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import Floats, Series, StepUnit


@dataclass(frozen=True)
class Extracted:
    """A column after averaging by step: `step` [n] increasing, `value` [n] finite, what happened on the way."""

    step: Floats
    value: Floats
    nonfinite_steps: Floats
    notes: tuple[str, ...]


def extract(step: Floats, value: Floats, rows: NDArray[np.bool_]) -> Extracted:
    """The chosen rows of a column [rows], averaged over rows that share a step; NaN and infinite values left out."""
    rows = rows & np.isfinite(step)
    usable = rows & np.isfinite(value)
    notes = []
    lost = np.unique(step[rows & ~np.isfinite(value)])
    if (rows & ~usable).any():
        notes.append(f"{int((rows & ~usable).sum())} missing or non-finite rewards left out")
    steps, place, counts = np.unique(step[usable], return_inverse=True, return_counts=True)
    means = np.zeros(steps.size)
    np.add.at(means, place, value[usable] / counts[place])
    repeated = int((counts > 1).sum())
    if repeated:
        back = int((np.diff(step[usable]) < 0).sum())
        restart = f"; the step goes back {back} times (a restarted run?)" if 0 < back <= 0.1 * steps.size else ""
        notes.append(f"{repeated} steps with several rows each were averaged (up to {counts.max()} rows){restart}")
    return Extracted(steps, means, np.setdiff1d(lost, steps), tuple(notes))


def tidy(
    raw: Extracted, key: str, framework: str, alias: aliases.Alias | None, *, thin: bool
) -> tuple[Series, tuple[str, ...]]:
    """(series, notes): the column with its provenance, thinned to one row per tread if it is a staircase."""
    step, value, notes = raw.step, raw.value, raw.notes
    tread = staircase.stride(value) if thin else 1
    mended: tuple[str, ...] = ()
    if tread > 1:
        kept = staircase.first_of_each_tread(value, tread)
        mended = (
            f"'{key}' is forward-filled: {step.size} rows thinned to the {kept.size} logged ones, one in {tread}",
        )
        step, value = step[kept], value[kept]
    origin = alias or aliases.Alias("", key, framework)
    versions = origin.versions if alias else ""
    return Series(step, value, key, framework, versions, origin.meaning, (*notes, *mended)), mended


def unit_of(step_key: str, framework: str, options: ReadOptions) -> StepUnit:
    """What one step of the log is: as told, as the step key's name says, or as the trainer documents."""
    if options.step_unit is not None:
        return cast(StepUnit, options.step_unit)
    named = aliases.KEY_UNIT.get(aliases.canonical(step_key))
    return cast(StepUnit, named or aliases.STEP_UNIT.get(framework, "unknown"))
