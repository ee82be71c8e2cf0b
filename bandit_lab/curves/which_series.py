"""What else a log holds beside the reward: named columns, parts of the reward, held-out results, settings."""

import numpy as np

from bandit_lab.curves import aliases, columns, limits
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import Floats, Series
from bandit_lab.curves.table import Rows, Table
from bandit_lab.curves.which_key import looks_like_evaluation, named


def role_series(
    table: Table, role: str, step: Floats, pool: Rows, held_out: Rows, framework: str, options: ReadOptions
) -> Series | None:
    """A named column on its own steps, from the rows of the filter or, if it is not logged there, all training rows."""
    known = np.isfinite(step)
    for key, alias in aliases.candidates(role, table.keys, framework):
        for rows in (pool & known, ~held_out & known):
            if table.logged(key, rows):
                return _series(table, key, step, rows, alias.framework, alias, thin=options.thin)
    return None


def part_series(
    table: Table, step: Floats, pool: Rows, reward_key: str, framework: str, options: ReadOptions
) -> tuple[dict[str, Series], tuple[str, ...]]:
    """(parts of the reward and further reward keys of the same run by key, how many were left out, in words).

    From the rows of the filter.
    """
    rows = pool & np.isfinite(step)
    others = aliases.candidates("part", table.keys, framework) + aliases.candidates("reward", table.keys, framework)
    wanted = {key: alias for key, alias in reversed(others) if key != reward_key and not key.endswith("/std")}
    logged = [key for key in dict.fromkeys(key for key, _ in others) if key in wanted and table.logged(key, rows)]
    kept, more = logged[: limits.MAX_PARTS], len(logged) - limits.MAX_PARTS
    found = {
        key: _series(table, key, step, rows, wanted[key].framework, wanted[key], thin=options.thin) for key in kept
    }
    return found, (f"{more} of {len(logged)} parts of the reward left out",) if more > 0 else ()


def held_out_series(
    table: Table, step: Floats, held_out: Rows, reward_key: str, framework: str, options: ReadOptions
) -> Series | None:
    """The held-out series: the key asked for, else a known name, else the reward key within evaluation rows."""
    known = np.isfinite(step)
    said = held_out & known
    if options.eval_key is not None:
        key = named("eval_key", options.eval_key, table.keys)
        return _series(table, key, step, said if table.logged(key, said) else known, framework, None)
    inside = [key for key in table.keys if table.logged(key, said)]
    ranked = aliases.candidates("reward", inside, framework) + aliases.candidates("part", inside, framework)
    ranked = [(key, alias) for key, alias in ranked if key == reward_key] + ranked
    outside = [key for key in table.keys if key != reward_key and looks_like_evaluation(key)]
    pairs = [(key, alias, said) for key, alias in ranked]
    pairs += [(key, alias, known) for key, alias in aliases.candidates("eval", outside, framework)]
    for key, alias, rows in pairs:
        if table.logged(key, rows):
            return _series(table, key, step, rows, alias.framework, alias)
    return None


def _series(
    table: Table, key: str, step: Floats, rows: Rows, framework: str, alias: aliases.Alias | None, *, thin: bool = False
) -> Series:
    """The finite numbers of a column in these rows [rows]."""
    value = table.column(key)
    raw = columns.extract(step, value, rows & np.isfinite(value))
    return columns.tidy(raw, key, framework, alias, thin=thin)[0]


def repeated_settings(table: Table, framework: str) -> dict[str, float]:
    """Settings that the log repeats on its rows and that never change in it."""
    found = {}
    for role in ("group_size", "refresh_interval", "prompts"):
        for key, _ in aliases.candidates(role, table.keys, framework):
            values = np.unique(table.column(key)[np.isfinite(table.column(key))])
            if values.size == 1 and role not in found:
                found[role] = float(values[0])
    return found
