"""Which column of a log is the reward, and which the step: as asked, by a known name, or by a guess that is said."""

import difflib
import re

import numpy as np

from bandit_lab.curves import aliases
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import Floats
from bandit_lab.curves.table import Rows, Table

_EVAL_PREFIX = re.compile(r"(eval|val|valid|validation|test|dev)([-_/.]|$)", re.IGNORECASE)
_NOT_A_MEAN = re.compile(
    r"(^|[-_/.@])(std|min|max|var|sum|loss|lr|sec|seconds|time|advantage|advantages|adv)([-_/.@]|$)|zero|frac", re.I
)
"""Keys that speak of the reward but are no mean of it."""


def near(key: str, keys: list[str]) -> str:
    """What the log has instead of `key`: its names that look like it, else the first ones."""
    close = difflib.get_close_matches(key, keys, 5, 0.4) or keys[:8]
    return "the log has " + ", ".join(close) if close else "the log has no numeric column"


def named(option: str, wanted: str, keys: list[str]) -> str:
    """The log's key that the user's `option` asks for. Raises ValueError if there is none."""
    key = match_key(wanted, keys)
    if key is None:
        raise ValueError(f"{option}: expected a column of the log, got '{wanted}'; {near(wanted, keys)}")
    return key


def match_key(wanted: str, keys: list[str]) -> str | None:
    """The log's key that `wanted` names: exactly, or apart from a logger prefix, or as the last part of a path."""
    if wanted in keys:
        return wanted
    same = [key for key in keys if aliases.canonical(key).lower() == aliases.canonical(wanted).lower()]
    same = same or [key for key in keys if key.endswith((f".{wanted}", f"/{wanted}", f" {wanted}"))]
    return same[0] if same else None


def looks_like_evaluation(key: str) -> bool:
    """Whether a key by its own name is a held-out result."""
    return _EVAL_PREFIX.match(key) is not None


def reward_column(
    table: Table, pool: Rows, held_out: Rows, framework: str, options: ReadOptions
) -> tuple[str, aliases.Alias | None, str, bool]:
    """(key, alias, sentence, is it an evaluation) of the reward column, looked for in the rows of `pool`.

    Raises ValueError if the log holds none.
    """
    if options.reward_key is not None:
        key = named("reward_key", options.reward_key, table.keys)
        alias = dict(aliases.candidates("reward", [key], framework) + aliases.candidates("eval", [key], framework)).get(
            key
        )
        only_held_out = bool(held_out.any()) and not (table.has(key) & pool).any()
        return key, alias, f"reward: '{key}' (given)", looks_like_evaluation(key) or only_held_out
    present = [key for key in table.keys if table.logged(key, pool)]
    train = [key for key in present if not looks_like_evaluation(key)]
    ranked = aliases.candidates("reward", train, framework)
    if ranked:
        key, alias = ranked[0]
        rest = ", ".join(f"'{k}'" for k, _ in ranked[1:4])
        return (
            key,
            alias,
            f"reward: '{key}' ({alias.framework}, {alias.versions})" + (f"; also there: {rest}" if rest else ""),
            False,
        )
    guesses = reward_guesses(train)
    if guesses:
        rest = ", ".join(f"'{k}'" for k in guesses[1:4])
        return (
            guesses[0],
            None,
            f"reward: '{guesses[0]}' (guessed from its name)" + (f"; also there: {rest}" if rest else ""),
            False,
        )
    held = aliases.candidates("eval", [key for key in table.keys if table.logged(key)], framework)
    if held:
        key, alias = held[0]
        return key, alias, f"reward: '{key}', an evaluation curve, because no training reward was found", True
    raise ValueError(f"reward_key: expected a log with a reward column, got none; {near('reward', table.keys)}")


def reward_guesses(keys: list[str]) -> list[str]:
    """Keys that look like a mean reward, the likeliest first."""
    known = [key for key in keys if re.search(r"reward|score|return", key, re.I) and not _NOT_A_MEAN.search(key)]
    return sorted(known, key=lambda key: ("mean" not in key.lower(), "total" not in key.lower(), len(key)))


def step_column(table: Table, rows: Rows, options: ReadOptions) -> tuple[Floats, str, str]:
    """(step of every row [rows], its key, sentence); the row's number where nothing better is logged.

    A known name counts if more than half of the `rows` have it. Raises ValueError for a column that is not there.
    """
    if options.step_key is not None:
        key = named("step_key", options.step_key, table.keys)
        return table.column(key), key, f"step: '{key}' (given)"
    for key, _ in aliases.candidates("step", table.keys):
        step = table.column(key)
        if np.isfinite(step[rows]).sum() > 0.5 * max(rows.sum(), 1):
            return step, key, f"step: '{key}'"
    return np.cumsum(rows).astype(float), "", "step: the number of the row, because no step is logged"
