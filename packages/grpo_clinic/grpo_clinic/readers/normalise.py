"""From tables of logged rows to one normalised curve: which column is what, which rows count, what was mended.

Further files of the same run add columns and held-out results.
"""

from dataclasses import dataclass, replace

import numpy as np

from grpo_clinic.readers import aliases, columns
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import COLUMNS, Curve, Floats, RewardScale, Series
from grpo_clinic.readers.table import LogTable, RowMask
from grpo_clinic.readers.which import (
    chosen_rows,
    epoch_length,
    evaluation_rows,
    held_out_series,
    looks_like_evaluation,
    loss_series,
    lost_gradient,
    match_key,
    near,
    part_series,
    plain_series,
    repeated_settings,
    reward_column,
    reward_guesses,
    role_series,
    step_column,
)

_NAMED = 8
"""Columns that a note names."""
_REST, _ROWS = 128, 100_000
"""Further columns that are kept as series, and rows of a log up to which they are."""
_TELLING = {"kl", "grad_norm", "entropy", "zero_std_frac", "truncation", "engine_kl", "engine_k1", "engine_abs",
            "importance_ratio", "ess", "age", "age_max"}  # fmt: skip
"""Columns that prove something of a run without its reward."""


@dataclass(frozen=True)
class Parsed:
    """What a reader hands over: one table per run, the format's name and what it had to say."""

    format: str
    tables: dict[str, LogTable]
    notes: tuple[str, ...] = ()
    framework: str = ""


def curve(name: str, source: str, parsed: Parsed, table: LogTable, options: ReadOptions) -> Curve:
    """The curve of one table. Raises ValueError if it holds no reward, or not the columns and rows asked for.

    Without a reward it is the curve of what else is logged, where `options` allow that.
    """
    framework = parsed.framework or aliases.framework_of(table.keys)
    held_out = evaluation_rows(table)
    chosen = chosen_rows(table, options) if options.where else None
    pool = ~held_out if chosen is None else chosen
    try:
        reward_key, alias, text, is_eval = reward_column(table, pool, held_out, framework, options)
    except ValueError as error:
        if options.needs_reward or options.reward_key is not None:
            raise
        bare = _without_reward(name, source, parsed, table, pool, options)
        if not (_TELLING & bare.series.keys() or (bare.series and bare.gradient_lost.size)):
            raise ValueError(f"{error}; a KL, a gradient norm or an entropy would tell a part of it") from None
        return bare
    reward_rows = (held_out | pool if is_eval and chosen is None else pool) & table.has(reward_key)
    step, step_key, step_text = step_column(table, reward_rows, options)
    raw = columns.extract(step, table.column(reward_key), reward_rows)
    origin = alias.framework if alias else framework
    series, mended = columns.tidy(raw, reward_key, origin, alias, thin=options.thin)
    if series.step.size == 0:
        raise ValueError(f"reward_key: expected a column with finite numbers, got '{reward_key}' without any")
    others = _others(table, step, pool, held_out, framework, options)
    parts, left_out = part_series(table, step, pool, reward_key, framework, options)
    held = None
    if not is_eval or options.eval_key:
        held = held_out_series(table, step, held_out, reward_key, framework, options)
    used = {reward_key, step_key, *parts, *(one.key for one in others.values()), *([held.key] if held else [])}
    return Curve(
        name=name,
        source=source,
        format=parsed.format,
        framework=framework,
        reward_series=series,
        scale=_scale(series.value, options),
        step_unit=columns.unit_of(step_key, framework, options),
        series=others,
        parts=parts,
        eval=held,
        settings={**repeated_settings(table, framework), **epoch_length(table, step, reward_rows)},
        reward_is_eval=is_eval,
        nonfinite_steps=raw.nonfinite_steps,
        gradient_lost=_gradient_lost(table, step, pool, framework),
        unread=_unread(table, used),
        others=_rest(table, step, pool, used, framework, options),
        recognised=(*_origin(parsed, table, framework), text, step_text),
        notes=(*parsed.notes, *mended, *raw.notes, *left_out, *_unused_evaluations(table, used)),
    )


def _without_reward(
    name: str, source: str, parsed: Parsed, table: LogTable, pool: RowMask, options: ReadOptions
) -> Curve:
    """What a log without a reward holds beside it: its reward is an empty series."""
    framework, none = parsed.framework or aliases.framework_of(table.keys), np.zeros(0)
    step, step_key, step_text = step_column(table, pool, options)
    lost = lost_gradient(table, pool, framework)
    others = _others(table, step, pool, ~pool, framework, options)
    unread = [f"'{key}' holds no number" for key, _ in aliases.candidates("reward", table.keys, framework)[:1]]
    return Curve(
        name=name,
        source=source,
        format=parsed.format,
        framework=framework,
        reward_series=Series(none, none, ""),
        scale=RewardScale(0.0, 0.0, False),
        step_unit=columns.unit_of(step_key, framework, options),
        series=others or loss_series(table, step, pool, framework, options),
        settings=repeated_settings(table, framework),
        gradient_lost=_gradient_lost(table, step, pool, framework),
        unread=_unread(table, {step_key, *(one.key for one in others.values())}),
        recognised=(*_origin(parsed, table, framework), "reward: none", step_text),
        notes=(*parsed.notes, *unread, *([lost] if lost else [])),
    )


def _others(
    table: LogTable, step: Floats, pool: RowMask, held_out: RowMask, framework: str, options: ReadOptions
) -> dict[str, Series]:
    found = {role: role_series(table, role, step, pool, held_out, framework, options) for role in COLUMNS}
    return {role: one for role, one in found.items() if one is not None}


def _origin(parsed: Parsed, table: LogTable, framework: str) -> tuple[str, str]:
    known = f"{framework} ({aliases.version_range(framework, table.keys)})"
    return f"format: {parsed.format}", f"framework: {'none of the known ones' if framework == aliases.OWN else known}"


def _gradient_lost(table: LogTable, step: Floats, pool: RowMask, framework: str) -> Floats:
    """Steps [k] at the end of the log whose gradient norm is logged and not finite."""
    for key, _ in aliases.candidates("grad_norm", table.keys, framework):
        rows = pool & table.has(key) & np.isfinite(step)
        order = np.argsort(step[rows], kind="stable")
        good = np.flatnonzero(np.isfinite(table.column(key)[rows][order]))
        return np.asarray(step[rows][order][good[-1] + 1 if good.size else 0 :])
    return np.zeros(0)


def _unread(table: LogTable, used: set[str]) -> tuple[str, ...]:
    """Numeric columns that hold something and that nothing was taken from, by name."""
    parts = {part for key in used for part in key.split("' + '")}
    return tuple(key for key in table.keys if key not in parts and not key.startswith("__") and table.logged(key))


def _rest(
    table: LogTable, step: Floats, pool: RowMask, used: set[str], framework: str, options: ReadOptions
) -> dict[str, Series]:
    """Series of the columns that nothing was taken from, the first of them: two runs are compared by all they have."""
    names = _unread(table, used)[:_REST] if table.rows <= _ROWS else ()
    found = {key: plain_series(table, key, step, pool & np.isfinite(step), framework, options) for key in names}
    return {key: one for key, one in found.items() if one.value.size}


def _unused_evaluations(table: LogTable, used: set[str]) -> tuple[str, ...]:
    """Evaluation columns that were not used, by name: one of them may be the one that is meant."""
    rest = [key for key in table.keys if key not in used and looks_like_evaluation(key) and table.logged(key)]
    if not rest:
        return ()
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return (f"evaluation columns not used (eval_key names one): {', '.join(rest[:_NAMED])}{more}",)


def _scale(reward: Floats, options: ReadOptions) -> RewardScale:
    if options.scale is None:
        return RewardScale.estimated(reward)
    return RewardScale(float(options.scale[0]), float(options.scale[1]), True)


def joined(curve: Curve, table: LogTable, origin: str, options: ReadOptions) -> Curve:
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


def with_held_out(curve: Curve, table: LogTable, origin: str, options: ReadOptions) -> Curve:
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
