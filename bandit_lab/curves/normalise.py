"""From a table of logged rows to one normalised curve: which column is what, which rows count, what was mended."""

from dataclasses import dataclass

from bandit_lab.curves import aliases, columns
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.record import COLUMNS, Curve, Floats, RewardScale
from bandit_lab.curves.table import Table
from bandit_lab.curves.which_key import reward_column, step_column
from bandit_lab.curves.which_rows import chosen_rows, evaluation_rows
from bandit_lab.curves.which_series import held_out_series, part_series, repeated_settings, role_series


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
    held_out = evaluation_rows(table)
    chosen = chosen_rows(table, options) if options.where else None
    pool = ~held_out if chosen is None else chosen
    reward_key, alias, text, is_eval = reward_column(table, pool, held_out, framework, options)
    reward_rows = (held_out | pool if is_eval and chosen is None else pool) & table.has(reward_key)
    step, step_key, step_text = step_column(table, reward_rows, options)
    raw = columns.extract(step, table.column(reward_key), reward_rows)
    version = aliases.version_range(framework, table.keys)
    origin = alias.framework if alias else framework
    series, mended = columns.tidy(raw, reward_key, origin, alias, thin=options.thin)
    if series.step.size == 0:
        raise ValueError(f"reward_key: expected a column with finite numbers, got '{reward_key}' without any")
    others = {
        role: found for role in COLUMNS if (found := role_series(table, role, step, pool, held_out, framework, options))
    }
    parts, left_out = part_series(table, step, pool, reward_key, framework, options)
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
        parts=parts,
        eval=None
        if is_eval and not options.eval_key
        else held_out_series(table, step, held_out, reward_key, framework, options),
        settings=repeated_settings(table, framework),
        reward_is_eval=is_eval,
        nonfinite_steps=raw.nonfinite_steps,
        recognised=recognised,
        notes=(*parsed.notes, *mended, *raw.notes, *left_out),
    )


def _scale(reward: Floats, options: ReadOptions) -> RewardScale:
    if options.scale is None:
        return RewardScale.estimated(reward)
    return RewardScale(float(options.scale[0]), float(options.scale[1]), True)
