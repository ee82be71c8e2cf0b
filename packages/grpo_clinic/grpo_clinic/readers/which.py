"""Which columns and rows of a log are what: the reward, the step, held-out results, and what else it holds.

Each as asked, by a known name, or by a guess that is said.
"""

import difflib
import re
from dataclasses import replace

import numpy as np

from grpo_clinic.readers import aliases, columns, limits
from grpo_clinic.readers.epochs import steps_per_epoch
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import Floats, Series
from grpo_clinic.readers.table import LogTable, RowMask

_EVAL_PREFIX = re.compile(r"(eval|val|valid|validation|test|dev)([-_/.]|$)", re.IGNORECASE)
_NOT_A_MEAN = re.compile(
    r"(^|[-_/.@])(std|min|max|var|sum|minus|gap|diff|loss|lr|sec|seconds|time|advantage|advantages|adv)([-_/.@]|$)|zero|frac",
    re.I,
)
"""Keys that speak of the reward but are no mean of it."""
_NO_PART = ("/std", "/min", "/max", "/mean_std", "/var")
"""Ends of keys that are the spread of a reward, and no part of it."""
KIND_KEYS = ("type", "split", "phase", "mode", "kind", "stage", "event", "eval", "is_eval")
"""Columns in which loops say what a row is."""
_EVAL_WORDS = frozenset({"eval", "evaluation", "val", "valid", "validation", "test", "dev", "true"})
"""What an evaluation says there."""


def near(key: str, keys: list[str]) -> str:
    """What the log has instead of `key`: its names, first those that look like it, and how many more there are."""
    if not keys:
        return "the log has no numeric column"
    close = difflib.get_close_matches(key, keys, 5, 0.4)
    shown = [*close, *(one for one in keys if one not in close)][:8]
    more = f" and {len(keys) - len(shown)} more" if len(keys) > len(shown) else ""
    return f"the log has {', '.join(shown)}{more}"


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
    table: LogTable, pool: RowMask, held_out: RowMask, framework: str, options: ReadOptions
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
        origin = f"{alias.framework}, {alias.versions}"
        return key, alias, f"reward: '{key}' ({origin}){_other_candidates([other for other, _ in ranked])}", False
    guesses = reward_guesses(train)
    if guesses:
        return guesses[0], None, f"reward: '{guesses[0]}' (guessed from its name){_other_candidates(guesses)}", False
    alone = [key for key in train if not aliases.candidates("step", [key])]
    if [aliases.canonical(key) for key in alone] == ["mean"]:
        return alone[0], None, f"reward: '{alone[0]}', the one column beside the step", False
    held = aliases.candidates("eval", [key for key in table.keys if table.logged(key)], framework)
    if held:
        key, alias = held[0]
        return key, alias, f"reward: '{key}', an evaluation curve, because no training reward was found", True
    lost = lost_gradient(table, pool, framework)
    instead = near("reward", table.keys) + (f"; it shows that {lost}" if lost else "")
    raise ValueError(f"reward_key: expected a log with a reward column, got none; {instead}")


def lost_gradient(table: LogTable, pool: RowMask, framework: str) -> str:
    """What a log without a reward shows all the same: a gradient norm that is not finite, beside a loss that is one."""
    for key, _ in aliases.candidates("grad_norm", table.keys, framework):
        rows = pool & table.has(key)
        lost = rows & ~np.isfinite(table.column(key))
        if lost.any():
            text = f"'{key}' is not finite in {lost.sum()} of {rows.sum()} rows"
            forward = "loss" in table.keys and bool(np.all(np.isfinite(table.column("loss")[lost])))
            return f"{text}, where the loss is a number: it was lost in the backward pass" if forward else text
    return ""


def _other_candidates(keys: list[str]) -> str:
    rest = ", ".join(f"'{key}'" for key in keys[1:4])
    return f"; also there: {rest}" if rest else ""


def reward_guesses(keys: list[str]) -> list[str]:
    """Keys that look like a mean reward, the likeliest first."""
    known = [key for key in keys if re.search(r"reward|score(?!d)|return", key, re.I) and not _NOT_A_MEAN.search(key)]
    return sorted(known, key=lambda key: ("mean" not in key.lower(), "total" not in key.lower(), len(key)))


def step_column(table: LogTable, rows: RowMask, options: ReadOptions) -> tuple[Floats, str, str]:
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


def evaluation_rows(table: LogTable) -> RowMask:
    """Rows that say of themselves that they are an evaluation [rows]."""
    held_out = np.zeros(table.rows, bool)
    for key in table.text_keys:
        if key.lower() in KIND_KEYS:
            held_out |= np.array([word is not None and word.lower() in _EVAL_WORDS for word in table.words(key)], bool)
    return held_out


def chosen_rows(table: LogTable, options: ReadOptions) -> RowMask:
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


def role_series(
    table: LogTable, role: str, step: Floats, pool: RowMask, held_out: RowMask, framework: str, options: ReadOptions
) -> Series | None:
    """A named column on its own steps, from the rows of the filter or, if it is not logged there, all training rows."""
    known = np.isfinite(step)
    for key, alias in aliases.candidates(role, table.keys, framework):
        for rows in (pool & known, ~held_out & known):
            if table.logged(key, rows):
                found = _series(table, key, step, rows, alias.framework, alias, thin=options.thin)
                return _with_other_half(table, found, step, rows, options)
    return None


def loss_series(
    table: LogTable, step: Floats, pool: RowMask, framework: str, options: ReadOptions
) -> dict[str, Series]:
    """The first loss, for a log that holds nothing else in numbers."""
    rows = pool & np.isfinite(step)
    key = next((key for key in table.keys if key.endswith("loss") and table.logged(key, rows)), None)
    return {"loss": _series(table, key, step, rows, framework, None, thin=options.thin)} if key else {}


def plain_series(
    table: LogTable, key: str, step: Floats, rows: RowMask, framework: str, options: ReadOptions
) -> Series:
    """A column of no known role, as it is."""
    return _series(table, key, step, rows, framework, None, thin=options.thin)


def _with_other_half(
    table: LogTable, found: Series, step: Floats, rows: RowMask, options: ReadOptions
) -> Series | None:
    """The sum of two columns where a trainer logs its silent groups in two, else the one; None without the other."""
    end = next((end for end in aliases.OTHER_HALF if found.key.endswith(end)), "")
    if not end:
        return found
    key = found.key.removesuffix(end) + aliases.OTHER_HALF[end]
    if not table.logged(key, rows):
        return None
    other = _series(table, key, step, rows, found.framework, None, thin=options.thin)
    both = np.nan_to_num(other.at(found.step)) + found.value
    return replace(found, value=both, key=f"{found.key}' + '{key}")


def part_series(
    table: LogTable, step: Floats, pool: RowMask, reward_key: str, framework: str, options: ReadOptions
) -> tuple[dict[str, Series], tuple[str, ...]]:
    """(parts of the reward and further reward keys of the same run by key, how many were left out, in words).

    From the rows of the filter.
    """
    rows = pool & np.isfinite(step)
    others = aliases.candidates("part", table.keys, framework) + aliases.candidates("reward", table.keys, framework)
    wanted = {key: alias for key, alias in reversed(others) if key != reward_key and not key.endswith(_NO_PART)}
    logged = [key for key in dict.fromkeys(key for key, _ in others) if key in wanted and table.logged(key, rows)]
    kept, more = logged[: limits.MAX_PARTS], len(logged) - limits.MAX_PARTS
    found = {
        key: _series(table, key, step, rows, wanted[key].framework, wanted[key], thin=options.thin) for key in kept
    }
    return found, (f"{more} of {len(logged)} parts of the reward left out",) if more > 0 else ()


def held_out_series(
    table: LogTable, step: Floats, held_out: RowMask, reward_key: str, framework: str, options: ReadOptions
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
    table: LogTable,
    key: str,
    step: Floats,
    rows: RowMask,
    framework: str,
    alias: aliases.Alias | None,
    *,
    thin: bool = False,
) -> Series:
    """The finite numbers of a column in these rows [rows]."""
    value = table.column(key)
    raw = columns.extract(step, value, rows & np.isfinite(value))
    return columns.tidy(raw, key, framework, alias, thin=thin)[0]


def repeated_settings(table: LogTable, framework: str) -> dict[str, float]:
    """Settings that the log repeats on its rows and that never change in it."""
    found = {}
    for role in ("group_size", "refresh_interval", "prompts"):
        for key, _ in aliases.candidates(role, table.keys, framework):
            values = np.unique(table.column(key)[np.isfinite(table.column(key))])
            if values.size == 1 and role not in found:
                found[role] = float(values[0])
    return found


def epoch_length(table: LogTable, step: Floats, rows: RowMask) -> dict[str, float]:
    """`steps_per_epoch` from the log's epoch column in these rows [rows], if it has one that grows evenly."""
    for key in table.keys:
        if aliases.canonical(key) in ("epoch", "training/epoch"):
            found = steps_per_epoch(step[rows], table.column(key)[rows])
            return {} if found is None else {"steps_per_epoch": found}
    return {}
