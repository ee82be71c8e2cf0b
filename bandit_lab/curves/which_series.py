"""What else a log holds beside the reward: named columns, parts of the reward, held-out results, settings."""

import numpy as np

from bandit_lab.curves import aliases, columns
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import Floats, Series
from bandit_lab.curves.table import Rows, Table
from bandit_lab.curves.which_key import looks_like_evaluation, named


def role_series(
    table: Table, role: str, step: Floats, pool: Rows, held_out: Rows, framework: str, options: ReadOptions
) -> Series | None:
    """A named column on its own steps, from the rows of the filter or, if it is not logged there, all training rows."""
    for key, alias in aliases.candidates(role, table.keys, framework):
        logged = np.isfinite(table.column(key)) & np.isfinite(step)
        for rows in (pool & logged, ~held_out & logged):
            if rows.any():
                raw = columns.extract(step, table.column(key), rows)
                return columns.tidy(raw, key, alias.framework, alias, thin=options.thin)[0]
    return None


def part_series(
    table: Table, step: Floats, pool: Rows, reward_key: str, framework: str, options: ReadOptions
) -> dict[str, Series]:
    """Parts of the reward and further reward keys of the same run, by key, from the rows of the filter."""
    found = {}
    others = aliases.candidates("part", table.keys, framework) + aliases.candidates("reward", table.keys, framework)
    for key, alias in others:
        rows = pool & np.isfinite(table.column(key)) & np.isfinite(step)
        if key != reward_key and key not in found and not key.endswith("/std") and rows.any():
            raw = columns.extract(step, table.column(key), rows)
            found[key] = columns.tidy(raw, key, alias.framework, alias, thin=options.thin)[0]
    return found


def held_out_series(
    table: Table, step: Floats, held_out: Rows, reward_key: str, framework: str, options: ReadOptions
) -> Series | None:
    """The held-out series: the key asked for, else a known name, else the reward key within evaluation rows."""
    logged = {key: np.isfinite(table.column(key)) & np.isfinite(step) for key in table.keys}
    if options.eval_key is not None:
        key = named("eval_key", options.eval_key, table.keys)
        rows = logged[key] & held_out if (logged[key] & held_out).any() else logged[key]
        return columns.tidy(columns.extract(step, table.column(key), rows), key, framework, None, thin=False)[0]
    inside = [key for key in table.keys if (logged[key] & held_out).any()]
    ranked = aliases.candidates("reward", inside, framework) + aliases.candidates("part", inside, framework)
    ranked = [(key, alias) for key, alias in ranked if key == reward_key] + ranked
    pairs = [(key, alias, logged[key] & held_out) for key, alias in ranked]
    outside = [key for key in table.keys if key != reward_key and looks_like_evaluation(key)]
    pairs += [(key, alias, logged[key]) for key, alias in aliases.candidates("eval", outside, framework)]
    for key, alias, rows in pairs:
        if rows.any():
            return columns.tidy(
                columns.extract(step, table.column(key), rows), key, alias.framework, alias, thin=False
            )[0]
    return None


def repeated_settings(table: Table, framework: str) -> dict[str, float]:
    """Settings that the log repeats on its rows and that never change in it."""
    found = {}
    for role in ("group_size", "refresh_interval", "prompts"):
        for key, _ in aliases.candidates(role, table.keys, framework):
            values = np.unique(table.column(key)[np.isfinite(table.column(key))])
            if values.size == 1 and role not in found:
                found[role] = float(values[0])
    return found
