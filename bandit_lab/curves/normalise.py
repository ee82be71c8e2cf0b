"""From a table of logged rows to one normalised curve: which column is what, which rows count, what was mended."""

import difflib
import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bandit_lab.curves import aliases, columns
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import COLUMNS, Curve, Floats, RewardScale, Series
from bandit_lab.curves.table import Table

Rows = NDArray[np.bool_]

_KIND_KEYS = ("type", "split", "phase", "mode", "kind", "stage", "event", "eval", "is_eval")
_EVAL_WORDS = frozenset({"eval", "evaluation", "val", "valid", "validation", "test", "dev", "true"})
_EVAL_PREFIX = re.compile(r"(eval|val|valid|validation|test|dev)([-_/.]|$)", re.IGNORECASE)
_NOT_A_MEAN = re.compile(
    r"(^|[-_/.@])(std|min|max|var|sum|loss|lr|sec|seconds|time|advantage|advantages|adv)([-_/.@]|$)|zero|frac", re.I
)


@dataclass(frozen=True)
class Parsed:
    """What a reader hands over: one table per run, the format's name and what it had to say."""

    format: str
    tables: dict[str, Table]
    notes: tuple[str, ...] = ()
    framework: str = ""


def curve(name: str, source: str, parsed: Parsed, table: Table, options: ReadOptions) -> Curve:
    """The curve of one table. Raises ValueError if it holds no reward, or not the columns and rows asked for."""
    framework = parsed.framework or aliases.framework_of(table.keys)
    held_out = _evaluation_rows(table)
    chosen = _where(table, options) if options.where else None
    pool = ~held_out if chosen is None else chosen
    reward_key, alias, text, is_eval = _reward(table, pool, held_out, framework, options)
    reward_rows = (held_out | pool if is_eval and chosen is None else pool) & table.has(reward_key)
    step, step_key, step_text = _steps(table, reward_rows, framework, options)
    raw = columns.extract(step, table.column(reward_key), reward_rows)
    version = aliases.version_range(framework, table.keys)
    origin = alias.framework if alias else framework
    series, mended = columns.tidy(raw, reward_key, origin, alias, thin=options.thin)
    if series.step.size == 0:
        raise ValueError(f"reward_key: expected a column with finite numbers, got '{reward_key}' without any")
    others = {
        role: found for role in COLUMNS if (found := _role(table, role, step, pool, held_out, framework, options))
    }
    recognised = (
        f"format: {parsed.format}",
        f"framework: {framework} ({version})" if framework != aliases.OWN else "framework: none of the known ones",
        text,
        step_text,
    )
    return Curve(
        name=name,
        source=source,
        format=parsed.format,
        framework=framework,
        reward_series=series,
        scale=_scale(series.value, options),
        step_unit=columns.unit_of(step_key, framework, options),
        series=others,
        parts=_parts(table, step, pool, reward_key, framework, options),
        eval=None
        if is_eval and not options.eval_key
        else _evaluation(table, step, held_out, reward_key, framework, options),
        settings=_settings(table, framework),
        reward_is_eval=is_eval,
        nonfinite_steps=raw.nonfinite_steps,
        recognised=recognised,
        notes=(*parsed.notes, *mended, *raw.notes),
    )


def _evaluation_rows(table: Table) -> Rows:
    """Rows that say of themselves that they are an evaluation [rows]."""
    held_out = np.zeros(table.rows, bool)
    for key in table.text_keys:
        if key.lower() in _KIND_KEYS:
            held_out |= np.array([word is not None and word.lower() in _EVAL_WORDS for word in table.words(key)], bool)
    return held_out


def _where(table: Table, options: ReadOptions) -> Rows:
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
                f"where: expected a column of the log, got '{key}'; {_near(key, table.text_keys + table.keys)}"
            )
    if not kept.any():
        raise ValueError(f"where: expected a condition that some row fulfils, got {dict(options.where)!r}")
    return kept


def _near(key: str, keys: list[str]) -> str:
    close = difflib.get_close_matches(key, keys, 5, 0.4) or keys[:8]
    return "the log has " + ", ".join(close) if close else "the log has no numeric column"


def _named(option: str, wanted: str, keys: list[str]) -> str:
    key = match_key(wanted, keys)
    if key is None:
        raise ValueError(f"{option}: expected a column of the log, got '{wanted}'; {_near(wanted, keys)}")
    return key


def looks_like_evaluation(key: str) -> bool:
    """Whether a key by its own name is a held-out result."""
    return _EVAL_PREFIX.match(key) is not None


def _reward(
    table: Table, pool: Rows, held_out: Rows, framework: str, options: ReadOptions
) -> tuple[str, aliases.Alias | None, str, bool]:
    """(key, alias, sentence, is it an evaluation) of the reward column."""
    if options.reward_key is not None:
        key = _named("reward_key", options.reward_key, table.keys)
        alias = dict(aliases.candidates("reward", [key], framework) + aliases.candidates("eval", [key], framework)).get(
            key
        )
        only_held_out = bool(held_out.any()) and not (table.has(key) & pool).any()
        return key, alias, f"reward: '{key}' (given)", looks_like_evaluation(key) or only_held_out
    present = [key for key in table.keys if np.isfinite(table.column(key)[pool]).any()]
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
    guesses = _guesses(train)
    if guesses:
        rest = ", ".join(f"'{k}'" for k in guesses[1:4])
        return (
            guesses[0],
            None,
            f"reward: '{guesses[0]}' (guessed from its name)" + (f"; also there: {rest}" if rest else ""),
            False,
        )
    held = aliases.candidates("eval", [k for k in table.keys if np.isfinite(table.column(k)).any()], framework)
    if held:
        key, alias = held[0]
        return key, alias, f"reward: '{key}', an evaluation curve, because no training reward was found", True
    raise ValueError(f"reward_key: expected a log with a reward column, got none; {_near('reward', table.keys)}")


def match_key(wanted: str, keys: list[str]) -> str | None:
    """The log's key that `wanted` names: exactly, or apart from a logger prefix, or as the last part of a path."""
    if wanted in keys:
        return wanted
    same = [key for key in keys if aliases.canonical(key).lower() == aliases.canonical(wanted).lower()]
    same = same or [key for key in keys if key.endswith((f".{wanted}", f"/{wanted}", f" {wanted}"))]
    return same[0] if same else None


def _guesses(keys: list[str]) -> list[str]:
    """Keys that look like a mean reward, the likeliest first."""
    named = [key for key in keys if re.search(r"reward|score|return", key, re.I) and not _NOT_A_MEAN.search(key)]
    return sorted(named, key=lambda key: ("mean" not in key.lower(), "total" not in key.lower(), len(key)))


def _steps(table: Table, rows: Rows, framework: str, options: ReadOptions) -> tuple[Floats, str, str]:
    """(step of every row [rows], its key, sentence); the row's number where nothing better is logged."""
    if options.step_key is not None:
        key = _named("step_key", options.step_key, table.keys)
        return table.column(key), key, f"step: '{key}' (given)"
    for key, _ in aliases.candidates("step", table.keys):
        step = table.column(key)
        if np.isfinite(step[rows]).sum() > 0.5 * max(rows.sum(), 1):
            return step, key, f"step: '{key}'"
    return np.cumsum(rows).astype(float), "", "step: the number of the row, because no step is logged"


def _role(
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


def _parts(
    table: Table, step: Floats, pool: Rows, reward_key: str, framework: str, options: ReadOptions
) -> dict[str, Series]:
    found = {}
    others = aliases.candidates("part", table.keys, framework) + aliases.candidates("reward", table.keys, framework)
    for key, alias in others:
        rows = pool & np.isfinite(table.column(key)) & np.isfinite(step)
        if key != reward_key and key not in found and not key.endswith("/std") and rows.any():
            raw = columns.extract(step, table.column(key), rows)
            found[key] = columns.tidy(raw, key, alias.framework, alias, thin=options.thin)[0]
    return found


def _evaluation(
    table: Table, step: Floats, held_out: Rows, reward_key: str, framework: str, options: ReadOptions
) -> Series | None:
    """The held-out series: the key asked for, else a known name, else the reward key within evaluation rows."""
    logged = {key: np.isfinite(table.column(key)) & np.isfinite(step) for key in table.keys}
    if options.eval_key is not None:
        key = _named("eval_key", options.eval_key, table.keys)
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


def _settings(table: Table, framework: str) -> dict[str, float]:
    """Settings that the log repeats on its rows and that never change in it."""
    found = {}
    for role in ("group_size", "refresh_interval", "prompts"):
        for key, _ in aliases.candidates(role, table.keys, framework):
            values = np.unique(table.column(key)[np.isfinite(table.column(key))])
            if values.size == 1 and role not in found:
                found[role] = float(values[0])
    return found


def _scale(reward: Floats, options: ReadOptions) -> RewardScale:
    if options.scale is None:
        return RewardScale.estimated(reward)
    return RewardScale(float(options.scale[0]), float(options.scale[1]), True)


def joined(curve: Curve, table: Table, origin: str, options: ReadOptions) -> Curve:
    """`curve` with what another file of the same run adds: columns it lacks, and a held-out series.

    Raises ValueError if the file adds nothing.
    """
    framework = aliases.framework_of(table.keys)
    everything = np.ones(table.rows, bool)
    step, _, _ = _steps(table, everything, framework, replace(options, step_key=None))
    fresh = {
        role: _from(found, origin)
        for role in COLUMNS
        if role not in curve.series
        and (found := _role(table, role, step, everything, ~everything, framework, options)) is not None
    }
    held_out = curve.eval
    if held_out is None:
        wanted = options.eval_key if options.eval_key and match_key(options.eval_key, table.keys) else None
        rows = everything if looks_like_evaluation(origin.rpartition("__")[2]) or ".eval" in origin else ~everything
        there = _evaluation(table, step, rows, "", framework, replace(options, eval_key=wanted))
        held_out = None if there is None else _from(there, origin)
    if not fresh and held_out is curve.eval:
        raise ValueError("expected a file with columns that the log lacks, got none; " + _near("entropy", table.keys))
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
    everything, said = np.ones(table.rows, bool), _evaluation_rows(table)
    step, _, step_text = _steps(table, everything, framework, replace(options, step_key=None))
    named = options.eval_key is not None or any(aliases.candidates("eval", table.keys, framework))
    rows = said if said.any() else ~everything if named else everything
    found = _evaluation(table, step, rows, "", framework, options)
    if found is None and (guesses := _guesses(table.keys)):
        found = _evaluation(table, step, rows, "", framework, replace(options, eval_key=guesses[0]))
    if found is None:
        raise ValueError(f"expected a file with held-out results, got none; {_near('accuracy', table.keys)}")
    instead = f", instead of '{curve.eval.key}' in the log" if curve.eval is not None else ""
    note = f"held-out results '{found.key}' from {origin}, {found.step.size} points, {step_text}{instead}"
    return replace(curve, eval=_from(found, origin), notes=(*curve.notes, note))


def _from(series: Series, origin: str) -> Series:
    return replace(series, notes=(*series.notes, f"from {origin}"))
