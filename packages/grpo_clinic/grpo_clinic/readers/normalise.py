"""From tables of logged rows to one normalised curve: which column is what, which rows count, what was mended.

Further files of the same run add columns and held-out results.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from grpo_clinic.readers import aliases, columns
from grpo_clinic.readers.epochs import steps_per_epoch
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import COLUMNS, Curve, RewardScale, Series
from grpo_clinic.readers.table import LogTable, Parsed, RowMask
from grpo_clinic.readers.which import View, looks_like_evaluation, match_key, near, reward_guesses

_NAMED = 8
"""Columns that a note names."""
_REST, _ROWS = 128, 100_000
"""Further columns that are kept as series, and rows of a log up to which they are."""
_TELLING = {"kl", "grad_norm", "entropy", "zero_std_frac", "truncation", "engine_kl", "engine_k1", "engine_abs",
            "importance_ratio", "ess", "age", "age_max"}  # fmt: skip
"""Columns that prove something of a run without its reward."""


def curve(name: str, source: str, parsed: Parsed, table: LogTable, options: ReadOptions) -> Curve:
    """The curve of one table. Raises ValueError if it holds no reward, or not the columns and rows asked for.

    Without a reward it is the curve of what else is logged, where `options` allow that.
    """
    view = View(table, options, parsed.framework)
    try:
        reward_key, text, is_eval = view.reward()
    except ValueError as error:
        if options.needs_reward or options.reward_key is not None:
            raise
        bare = _without_reward(name, source, parsed, view)
        if not (_TELLING & bare.series.keys() or (bare.series and bare.gradient_lost.size)):
            raise ValueError(f"{error}; a KL, a gradient norm or an entropy would tell a part of it") from None
        return bare
    pool = view.held_out | view.pool if is_eval and not options.where else view.pool
    rows = pool & table.has(reward_key)
    view.count_steps(rows)
    series, lost = columns.series_of(view.step, table.column(reward_key), rows, reward_key, thin=options.thin)
    if series.step.size == 0:
        raise ValueError(f"reward_key: expected a column with finite numbers, got '{reward_key}' without any")
    others = _others(view)
    parts, left_out = view.parts(reward_key)
    held = None
    if not is_eval or options.eval_key:
        held = view.results(view.held_out, reward_key, options.eval_key)
    used = {reward_key, view.step_key, *parts, *(one.key for one in others.values()), *([held.key] if held else [])}
    unread = view.unread(used)
    given, copies = options.reward_scale, [key for key, one in parts.items() if np.array_equal(one.value, series.value)]
    return Curve(
        **_about(name, source, parsed, view, text),
        reward_series=series,
        scale=RewardScale.estimated(series.value, reward_key, *copies)
        if given is None
        else RewardScale(float(given[0]), float(given[1]), True),
        series=others,
        parts=parts,
        eval=held,
        settings={**view.repeated_settings(), **_epoch_length(view, rows)},
        reward_is_eval=is_eval,
        nonfinite_steps=lost,
        unread=unread,
        others=_rest(view, unread),
        notes=(*parsed.notes, *series.notes, *left_out, *_unused_evaluations(unread)),
    )


def _without_reward(name: str, source: str, parsed: Parsed, view: View) -> Curve:
    """The other series of a log without a reward: its reward is an empty series."""
    view.count_steps(view.pool)
    view.held_out = ~view.pool
    others, lost = _others(view), view.lost_gradient()
    unread = view.unread({view.step_key, *(one.key for one in others.values())})
    empty = [f"'{key}' holds no number" for key, _ in view.candidates("reward")[:1]]
    return Curve(
        **_about(name, source, parsed, view, "reward: none"),
        reward_series=Series(np.zeros(0), np.zeros(0), ""),
        scale=RewardScale(0.0, 0.0, False),
        series=others or view.loss(),
        settings=view.repeated_settings(),
        unread=unread,
        others=_rest(view, unread),
        notes=(*parsed.notes, *empty, *([lost] if lost else [])),
    )


def _about(name: str, source: str, parsed: Parsed, view: View, reward: str) -> dict[str, Any]:
    framework = "none of the known ones" if view.framework == aliases.OWN else view.framework
    return {
        "name": name,
        "source": source,
        "format": parsed.format,
        "framework": view.framework,
        "step_unit": columns.unit_of(view.step_key, view.framework, view.options),
        "gradient_lost": view.gradient_lost(),
        "empty": tuple(role for role in COLUMNS if view.is_empty(role)),
        "recognised": (f"format: {parsed.format}", f"framework: {framework}", reward, view.step_text),
    }


def _others(view: View) -> dict[str, Series]:
    return {role: one for role in COLUMNS if (one := view.role(role)) is not None}


def _rest(view: View, unread: tuple[str, ...]) -> dict[str, Series]:
    """Columns that are taken for nothing, in a log of moderate size."""
    stepped = np.isfinite(view.step) & view.pool
    rest = {key: view.series(key, stepped) for key in (unread[:_REST] if view.table.rows <= _ROWS else ())}
    return {key: one for key, one in rest.items() if one.value.size}


def _epoch_length(view: View, rows: RowMask) -> dict[str, float]:
    """`steps_per_epoch` from the log's epoch column in these rows [rows], if it has one that grows evenly."""
    for key in view.table.keys:
        if aliases.canonical(key) in ("epoch", "training/epoch"):
            length = steps_per_epoch(view.step[rows], view.table.column(key)[rows])
            return {} if length is None else {"steps_per_epoch": length}
    return {}


def _unused_evaluations(unread: tuple[str, ...]) -> tuple[str, ...]:
    """Evaluation columns that were not used, by name: one of them may be the one that is meant."""
    rest = [key for key in unread if looks_like_evaluation(key)]
    if not rest:
        return ()
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return (f"evaluation columns not used (eval_key names one): {', '.join(rest[:_NAMED])}{more}",)


def joined(curve: Curve, table: LogTable, origin: str, options: ReadOptions, *, results: bool) -> Curve:
    """`curve` with what another file of the same run adds: columns it lacks, and a held-out series where it has none.

    results: the file holds held-out results and nothing else, which stand in place of any in the log. Rows that say
    that they are evaluations count, else keys that do, else all rows. Raises ValueError if the file adds nothing.
    """
    view = View(table, replace(options, where=None, step_key=None))
    marked, none = view.held_out, np.zeros(table.rows, bool)
    view.pool, view.held_out = ~none, none  # every row counts, by its own step
    view.count_steps(view.pool)
    if results:
        named = options.eval_key is not None or any(view.candidates("eval"))
        rows = marked if marked.any() else none if named else ~none
        held = view.results(rows, eval_key=options.eval_key)
        if held is None and (guesses := reward_guesses(table.keys)):
            held = view.results(rows, eval_key=guesses[0])
        if held is None:
            raise ValueError(f"expected a file with held-out results, got none; {near('accuracy', table.keys)}")
        instead = f", instead of '{curve.eval.key}' in the log" if curve.eval is not None else ""
        note = f"held-out results '{held.key}' from {origin}, {held.step.size} points, {view.step_text}{instead}"
        return replace(curve, eval=_from(held, origin), notes=(*curve.notes, note))
    fresh = {role: _from(one, origin) for role, one in _others(view).items() if role not in curve.series}
    there = None
    if curve.eval is None:
        whole = looks_like_evaluation(origin.rpartition("__")[2]) or ".eval" in origin
        wanted = options.eval_key if options.eval_key and match_key(options.eval_key, table.keys) else None
        there = view.results(~none if whole else none, eval_key=wanted)
    if not fresh and there is None:
        raise ValueError("expected a file with columns that the log lacks, got none; " + near("entropy", table.keys))
    added = ", ".join([*fresh, *([] if there is None else ["eval"])])
    held_out = curve.eval if there is None else _from(there, origin)
    notes = (*curve.notes, f"from {origin}: {added}")
    return replace(curve, series={**curve.series, **fresh}, eval=held_out, notes=notes)


def _from(series: Series, origin: str) -> Series:
    return replace(series, notes=(*series.notes, f"from {origin}"))
