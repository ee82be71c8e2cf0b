"""What `fit` prints: one line per log, the parameters of a single one, the scores of the back-test."""

import math
from collections.abc import Sequence
from typing import Any

from bandit_lab.study.terminal.report import MANY, new_table, number
from bandit_lab.study.terminal.text import middle_cut

SHORT = {
    "oscillator": "oscillator",
    "softmax_law": "softmax",
    "single_exponential": "exponent.",
    "sigmoid": "sigmoid",
    "constant": "constant",
}


def telling(ends: Sequence[Any] | None, digits: int = 3) -> int:
    """Significant digits, at least so many, that tell the ends of an interval apart by some tenths of its width."""
    known = [float(end) for end in ends or () if number(end) != "-"]
    width = max(known, default=0.0) - min(known, default=0.0)
    if width <= 0:
        return digits
    needed = math.ceil(math.log10(max(abs(end) for end in known) / width)) + 1
    return max(digits, min(needed, 15))


def interval(ends: Sequence[Any] | None, digits: int = 3) -> str:
    """[low, high] with an open end as a dash."""
    if ends is None:
        return "-"
    digits = telling(ends, digits)
    return f"[{', '.join('open' if number(end) == '-' else number(end, digits) for end in ends)}]"


def with_interval(found: dict[str, Any] | None, key: str, digits: int = 3, scale: dict[str, Any] | None = None) -> str:
    """`value [low, high]` of an entry of the summary; a single end outside the reward's `scale` bounds nothing."""
    if found is None or found.get("value") is None:
        return "-"
    if scale is not None and _says_nothing(found[key], scale):
        return "not bounded"
    digits = telling(found[key], digits)
    low, high = (number(end, digits) for end in found[key])
    if "-" in (low, high):
        return "not bounded" if low == high else f"above {low}" if high == "-" else f"below {high}"
    return f"{number(found['value'], digits)} [{low}, {high}]"


def _says_nothing(ends: Sequence[float | None], scale: dict[str, Any]) -> bool:
    """Whether one end is open and the other where no reward can be; a scale read off the rewards is taken as wide."""
    least, most = (end if end is not None and math.isfinite(end) else None for end in ends)
    room = 0.0 if scale["given"] else scale["high"] - scale["low"]
    if least is None:
        return most is not None and bool(most >= scale["high"] + room)
    return most is None and bool(least <= scale["low"] - room)


def runs_table(rows: list[dict[str, Any]], key: str) -> Any:
    """All logs; `key` names the interval of the parameters. Five or more stand on one line each, cut where needed."""
    many = len(rows) >= MANY
    columns = {
        "n" if many else "points": lambda row: str(row["n_points"]),
        "model": lambda row: SHORT[row["model"]],
        "R2": lambda row: f"{row['r_squared']:.2f}",
        "expl." if many else "of explainable": lambda row: share(row["r_squared_explainable"]),
        f"plateau, {key[9:]} %": lambda row: with_interval(
            row["parameters"]["plateau"], key, scale=row["reward_scale"]
        ),
    }
    if not many:
        columns["95 % of gain at step"] = lambda row: _arrival(row, key)
    if any("verdict" in row for row in rows):
        columns["verdict"] = lambda row: _verdict(row, many)
    if any("outcome" in row for row in rows):
        columns["outcome"] = lambda row: middle_cut(row.get("outcome", "-"), 15) if many else row.get("outcome", "-")
    table = new_table("", "log", *columns)
    for row in rows:
        name = middle_cut(row["log"], 24) if many else row["log"]
        blank = row["model"] is None
        cells = ["-" if blank and title != "outcome" else make(row) for title, make in columns.items()]
        table.add_row(name, *cells)
    for column in table.columns:
        column.no_wrap = many
    return table


def share(value: float | None) -> str:
    """A share with two decimals, or a dash."""
    return "-" if number(value) == "-" else f"{value:.2f}"


def _verdict(row: dict[str, Any], short: bool) -> str:
    """The verdict, failures before notes; in a long table the word of it that tells the modes apart."""
    grades = row.get("severity", {})
    names = sorted(row.get("verdict", ["-"]), key=lambda name: grades.get(name) == "note")
    if not short:
        return ", ".join(f"{'note: ' if grades.get(name) == 'note' else ''}{name.replace('_', ' ')}" for name in names)
    first, more = names[0].rpartition("_")[2], f" + {len(names) - 1}" if len(names) > 1 else ""
    return f"({first}{more})" if grades.get(names[0]) == "note" else f"{first}{more}"


def _arrival(row: dict[str, Any], key: str) -> str:
    found = row["parameters"].get("tau_95")
    if found is None:
        return "-"
    start = row["steps"][0]
    moved = {
        "value": found["value"] + start,
        key: [None if end is None else end + start for end in found[key]],
    }
    return with_interval(moved, key)


def parameter_table(row: dict[str, Any], key: str) -> Any:
    """Every number of the law of one log."""
    table = new_table(f"{row['log']}: {row['model']}", "parameter", "value", "std. error", f"{key[9:]} %", "unit")
    for name, found in row["parameters"].items():
        table.add_row(
            name,
            number(found["value"], telling(found[key], 4)),
            number(found["standard_error"], 2),
            interval(found[key]),
            found["unit"],
        )
    return table


def _steps(ends: Sequence[float], logged: Sequence[float]) -> str:
    """A stretch of steps, out to whole ones where the log counts whole ones."""
    first, last = ends
    if all(end == round(end) for end in logged) and last - first >= 2:
        first, last = math.floor(first), math.ceil(last)
    return f"steps {first:g} to {last:g}"


def forecast_line(row: dict[str, Any]) -> str:
    """One sentence on the forecast of one log."""
    found = row["forecast"]
    where = _steps(found["target_steps"], row["steps"])
    seen = f"from the first {100 * found['from_fraction']:g} %" if found["from_fraction"] < 1 else "from all points"
    if found["predicted"] is None:
        return f"Forecast {seen} for {where}: {found['predicted_reason']}."
    digits = telling(found["interval_90"], 4)
    text = f"Forecast {seen} for {where}: {number(found['predicted'], digits)} {interval(found['interval_90'])} (90 %)"
    if found["error"] is not None:
        text += f"; it was {number(found['actual'], digits)}, error {found['error']:+.3g}"
    if found["plateau"]["value"] is None:
        text += f". No plateau ({found['plateau']['value_reason']})"
    else:
        plateau = with_interval(found["plateau"], "interval_90", scale=row["reward_scale"])
        text += f". Plateau {plateau}{' by these points' if plateau == 'not bounded' else ''}"
    if found["step_95"]["value"] is None:
        return f"{text}; no step of 95 % of the gain ({found['step_95']['value_reason']})."
    return f"{text}, 95 % of the gain at step {with_interval(found['step_95'], 'interval_90')}."


def status_lines(rows: list[dict[str, Any]]) -> list[str]:
    """What could not be read, fitted or forecast, one line per log."""
    return [f"{row['log']}: {row['status']}" for row in rows if row["status"] != "ok"]


def backtest_table(scores: list[dict[str, Any]]) -> Any:
    """Scores by fraction of the curve that was seen."""
    table = new_table(
        "Back-test: the mean of the last tenth of the points, from the first part",
        "first part",
        "runs",
        "refused",
        "covered by 90 %",
        "95 % binomial",
        "median |error|",
        "last value",
        "single exponential",
        "sigmoid",
    )
    for one in scores:
        errors = one["baseline_errors"]
        table.add_row(
            f"{100 * one['fraction']:g} %",
            str(one["runs"]),
            str(one["refused"]),
            f"{one['covered']} of {one['runs'] - one['refused']}",
            interval(one["coverage_interval"]),
            f"{number(one['median_error'], 3)} ({number(one['median_relative_error'], 2)})",
            *(f"{number(errors[k], 3)} ({number(one['relative_baseline_errors'][k], 2)})" for k in errors),
        )
    return table


def _compared(one: dict[str, Any]) -> str:
    """Whether the errors differ from the baselines' by more than the choice of runs."""
    found, (low, high) = one["compared"], one["compared"]["ratio_interval"]
    smaller = [
        f"{name.replace('_', ' ')} in {count['smaller']} of {count['differ']} (sign test p = {count['p']:.2f})"
        for name, count in found["smaller"].items()
    ]
    return (
        f"From {100 * one['fraction']:g} %: median error over the range seen is {found['ratio']:.2f} times the best "
        f"baseline's (resampled runs: 95 % within {low:.2f} to {high:.2f}); error smaller than {', '.join(smaller)}; "
        f"interval score {number(one['interval_score'], 2)} of the range seen"
    )


def refusal_lines(found: dict[str, Any]) -> list[str]:
    """What the numbers of the back-test's table are, and the runs that were refused or left out."""
    lines = ["|error| in units of the reward (in brackets: of the range seen), over the runs that were not refused."]
    for one in found["scores"]:
        if one["refusals"]:
            lines.append(f"Refused from {100 * one['fraction']:g} %: {', '.join(one['refusals'])}")
        if "compared" in one:
            lines.append(_compared(one))
    if found["left_out"]:
        lines.append(f"Too short for the back-test: {len(found['left_out'])} runs")
    return lines
