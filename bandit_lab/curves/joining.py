"""One run from several files: columns and held-out results that stand beside the log."""

from dataclasses import replace

import numpy as np

from bandit_lab.curves import aliases
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import COLUMNS, Curve, Series
from bandit_lab.curves.table import Table
from bandit_lab.curves.which_key import looks_like_evaluation, match_key, near, reward_guesses, step_column
from bandit_lab.curves.which_rows import evaluation_rows
from bandit_lab.curves.which_series import held_out_series, role_series


def joined(curve: Curve, table: Table, origin: str, options: ReadOptions) -> Curve:
    """`curve` with what another file of the same run adds: columns it lacks, and a held-out series.

    Raises ValueError if the file adds nothing.
    """
    framework = aliases.framework_of(table.keys)
    everything = np.ones(table.rows, bool)
    step, _, _ = step_column(table, everything, replace(options, step_key=None))
    fresh = {
        role: _from(found, origin)
        for role in COLUMNS
        if role not in curve.series
        and (found := role_series(table, role, step, everything, ~everything, framework, options)) is not None
    }
    held_out = curve.eval
    if held_out is None:
        wanted = options.eval_key if options.eval_key and match_key(options.eval_key, table.keys) else None
        rows = everything if looks_like_evaluation(origin.rpartition("__")[2]) or ".eval" in origin else ~everything
        there = held_out_series(table, step, rows, "", framework, replace(options, eval_key=wanted))
        held_out = None if there is None else _from(there, origin)
    if not fresh and held_out is curve.eval:
        raise ValueError("expected a file with columns that the log lacks, got none; " + near("entropy", table.keys))
    added = ", ".join([*fresh, *(["eval"] if held_out is not curve.eval else [])])
    return replace(
        curve,
        series={**curve.series, **fresh},
        eval=held_out,
        notes=(*curve.notes, f"from {origin}: {added}"),
    )


def with_held_out(curve: Curve, table: Table, origin: str, options: ReadOptions) -> Curve:
    """`curve` with the held-out series of a file that holds nothing else, in place of any in the log.

    Rows that say that they are evaluations count, else keys that do, else all rows. Raises ValueError without any.
    """
    framework = aliases.framework_of(table.keys)
    everything, said = np.ones(table.rows, bool), evaluation_rows(table)
    step, _, step_text = step_column(table, everything, replace(options, step_key=None))
    named = options.eval_key is not None or any(aliases.candidates("eval", table.keys, framework))
    rows = said if said.any() else ~everything if named else everything
    found = held_out_series(table, step, rows, "", framework, options)
    if found is None and (guesses := reward_guesses(table.keys)):
        found = held_out_series(table, step, rows, "", framework, replace(options, eval_key=guesses[0]))
    if found is None:
        raise ValueError(f"expected a file with held-out results, got none; {near('accuracy', table.keys)}")
    instead = f", instead of '{curve.eval.key}' in the log" if curve.eval is not None else ""
    note = f"held-out results '{found.key}' from {origin}, {found.step.size} points, {step_text}{instead}"
    return replace(curve, eval=_from(found, origin), notes=(*curve.notes, note))


def _from(series: Series, origin: str) -> Series:
    return replace(series, notes=(*series.notes, f"from {origin}"))
