"""Which rows of a log count: those of a filter, or those that do not say of themselves that they are an evaluation."""

import numpy as np

from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.table import Rows, Table
from bandit_lab.curves.which_key import near

_KIND_KEYS = ("type", "split", "phase", "mode", "kind", "stage", "event", "eval", "is_eval")
"""Columns in which loops say what a row is."""
_EVAL_WORDS = frozenset({"eval", "evaluation", "val", "valid", "validation", "test", "dev", "true"})
"""What an evaluation says there."""


def evaluation_rows(table: Table) -> Rows:
    """Rows that say of themselves that they are an evaluation [rows]."""
    held_out = np.zeros(table.rows, bool)
    for key in table.text_keys:
        if key.lower() in _KIND_KEYS:
            held_out |= np.array([word is not None and word.lower() in _EVAL_WORDS for word in table.words(key)], bool)
    return held_out


def chosen_rows(table: Table, options: ReadOptions) -> Rows:
    """Rows that fulfil every condition [rows]. Raises ValueError for an unknown column or if no row is left."""
    kept = np.ones(table.rows, bool)
    for key, wanted in options.where.items():
        if key in table.text_keys:
            kept &= np.array([word == wanted for word in table.words(key)], bool)
        elif key in table.keys:
            try:
                kept &= table.column(key) == float(wanted)
            except ValueError:
                kept &= False
        else:
            raise ValueError(
                f"where: expected a column of the log, got '{key}'; {near(key, table.text_keys + table.keys)}"
            )
    if not kept.any():
        raise ValueError(f"where: expected a condition that some row fulfils, got {dict(options.where)!r}")
    return kept
