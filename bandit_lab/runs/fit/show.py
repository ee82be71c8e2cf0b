"""What `fit` tells of its runs: columns of the table of all runs, sections of the page of one, pictures, a data set."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.app.document import Block, Column, Document, Figure, On, Table, Value
from bandit_lab.app.document.value import finite, interval_text, number, telling
from bandit_lab.runs.fit.reading import StiffnessReading
from bandit_lab.runs.fit.results import FittedNumber
from bandit_lab.runs.fit.shapes import UNITS
from bandit_lab.runs.fit.work import Fitted
from bandit_lab.runs.logs.findings import judged, paragraphs, unfound_text, verdict_lines, what_was_read
from bandit_lab.runs.logs.runs import MANY, LogRow, column, curves_of, first_columns, last_columns, padded
from bandit_lab.runs.logs.settings import FitSettings
from bandit_lab.runs.read.record import RewardScale

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

SHORT = {
    "oscillator": "oscillator",
    "softmax_law": "softmax",
    "single_exponential": "exponent.",
    "sigmoid": "sigmoid",
    "constant": "constant",
}
NOT_FINITE = "the law has no finite number here"
OPEN = "an end is null where the curve does not bound it"
_OVER_ROWS = On.JSON | On.SHOWN
"""Of a column whose data set has another shape: per law, or not per run."""
FitRow = LogRow[Fitted]


def runs_table(rows: Sequence[FitRow], settings: FitSettings) -> Table[FitRow]:
    """All logs. Five or more stand on one line each, cut where needed."""
    many, level = len(rows) >= MANY, f"{100 * settings.level:g} %"
    verdicts = any(row.result is not None and row.found.diagnosis is not None for row in rows)
    columns: list[Column[FitRow]] = [
        *first_columns(24),
        column("reward_scale", "scale", lambda row: _scale(row.curve.scale), on=On.JSON),
        column("recognised", "recognised", lambda row: list(row.curve.recognised), on=On.JSON),
        column("notes", "notes", lambda row: list(row.curve.notes), on=On.JSON),
        column("model", "model", lambda row: row.found.best.law, null=True, on=On.JSON | On.PAGE | On.DATA),
        column("model", "model", lambda row: SHORT[row.found.best.law], on=On.TERMINAL),
        column("parameters", "parameters", lambda row: parameters(row.found, settings.level), null=True, on=On.JSON),
        column("r_squared", "R2", lambda row: row.found.best.r_squared, null=True, on=_OVER_ROWS,
               text=lambda row: f"{row.found.best.r_squared:.2f}"),
        column("r_squared_explainable", "of explainable", lambda row: explainable(row.found), null=True,
               on=_OVER_ROWS if len(rows) > 1 else On.JSON | On.PAGE,
               text=lambda row: f"{row.found.best.r_squared_explainable:.2f}", brief="expl."),
        column("plateau", f"plateau, {level}", lambda row: plateau_text(row, settings.level), on=On.SHOWN),
        column("arrival", "95 % of gain at step", lambda row: arrival(row, settings.level),
               digits=3, on=On(0) if many else On.TERMINAL),
        column("aicc", "AICc", lambda row: row.found.best.aicc, null=True, on=On.JSON),
        column("models", "models", lambda row: {law: _brief(row.found, law) for law in row.found.fit.ranked},
               on=On.JSON),
        column("reading", "reading", lambda row: _reading(row.found.reading), on=On.JSON),
    ]  # fmt: skip
    if verdicts:
        columns += [
            column("verdict", "verdict", lambda row: list(row.found.judged.verdict), on=_OVER_ROWS,
                   text=lambda row: _verdict(row, False), short=lambda row: _verdict(row, True)),
            column("severity", "severity", lambda row: {name: grade for name, (grade, _) in
                                                        row.found.judged.severity.items()}, on=On.JSON),
            column("scores", "scores", lambda row: row.found.judged.scores, on=On.JSON),
            column("missing", "missing", lambda row: list(row.found.judged.missing), on=On.JSON),
        ]  # fmt: skip
    return Table(rows, [*columns, *last_columns(rows, 15, status)], narrow=many)


def status(row: FitRow) -> str:
    """The status of a log with a curve."""
    return row.found.status


def _scale(scale: RewardScale) -> dict[str, Any]:
    return {"low": scale.low, "high": scale.high, "given": scale.given}


def explainable(found: Fitted) -> Value:
    """Share of the variance that changes slowly which the law explains."""
    return Value.of(found.best.r_squared_explainable, "noise from point to point is all the variance there is")


def as_value(estimate: FittedNumber, level: float) -> Value:
    """A fitted number with its interval and standard error, each absent where the curve is silent."""
    error = Value.of(estimate.standard_error, "this curve does not bound it", estimate.unit)
    made = Value.of(estimate.value, NOT_FINITE, estimate.unit).within(estimate.low, estimate.high, level, OPEN)
    return replace(made, standard_error=error)


def parameters(found: Fitted, level: float) -> dict[str, Value]:
    """Every number of the chosen law."""
    return {name: as_value(estimate, level) for name, estimate in found.best.parameters.items()}


def plateau_text(row: FitRow, level: float) -> str:
    """The plateau with its interval; a single end outside the reward's scale bounds nothing."""
    plateau = as_value(row.found.best.parameters["plateau"], level)
    return "not bounded" if says_nothing(plateau, row.curve.scale) else plateau.text()


def says_nothing(value: Value, scale: RewardScale) -> bool:
    """Whether one end is open and the other where no reward can be; a scale read off the rewards is taken as wide."""
    room = 0.0 if scale.given else scale.high - scale.low
    if value.low is None:
        return value.high is not None and bool(value.high >= scale.high + room)
    return value.high is None and bool(value.low <= scale.low - room)


def arrival(row: FitRow, level: float) -> Value | None:
    """The step of 95 % of the gain, on the log's step axis."""
    found, start = row.found.best.parameters.get("tau_95"), float(row.curve.step[0])
    if found is None:
        return None
    return Value.of(found.value + start, NOT_FINITE, "steps").within(found.low + start, found.high + start, level, OPEN)


def _brief(found: Fitted, law: str) -> dict[str, Any]:
    one = found.fit.laws[law]
    return {"aicc": one.aicc, "weight": found.fit.weights[law], "r_squared": one.r_squared, "status": one.status}


def _reading(reading: StiffnessReading | str) -> dict[str, Any]:
    if isinstance(reading, str):
        return {"effective_stiffness": Value.absent(reading)}
    ends = [finite(reading.low), finite(reading.high)]
    return {
        "effective_stiffness": reading.stiffness,
        "interval": ends,
        **({"interval_reason": OPEN} if None in ends else {}),
        "unit": "reward per logit^2",
        "damping_ratio_of_momentum": reading.damping_ratio_of_momentum,
    }


def _verdict(row: FitRow, short: bool) -> str:
    """The verdict, failures before notes; in a long table the word of it that tells the modes apart."""
    found = row.found.judged
    if found.verdict in (("healthy",), ("not_judged",)):
        return unfound_text(found).partition(":")[0]  # the longer words would wrap the table
    names = sorted(found.verdict, key=lambda name: name in found.notes)
    if not short:
        return ", ".join(f"{'note: ' if name in found.notes else ''}{name.replace('_', ' ')}" for name in names)
    first, more = names[0].rpartition("_")[2], f" + {len(names) - 1}" if len(names) > 1 else ""
    return f"({first}{more})" if names[0] in found.notes else f"{first}{more}"


def parameter_table(row: FitRow, level: float, on: On, title: str = "") -> Table[tuple[str, Value]]:
    """Every number of the law of one log."""

    def error(value: Value, nothing: str) -> str:
        known = None if value.standard_error is None else value.standard_error.value
        return nothing if known is None else number(known, 2)

    percent = f"{100 * level:g} %"
    return Table(list(parameters(row.found, level).items()), [
        Column("parameter", "parameter", lambda it: it[0].replace("_", " "), short=lambda it: it[0]),
        Column("value", "value", lambda it: number(it[1].value, telling(it[1].interval, 4))),
        Column("error", "standard error", lambda it: error(it[1], "not bounded"), brief="std. error",
               short=lambda it: error(it[1], "-")),
        Column("interval", f"{percent} interval", lambda it: interval_text(it[1].interval), brief=percent),
        Column("unit", "unit", lambda it: it[1].unit),
    ], title=title, on=on, narrow=True)  # fmt: skip


def _laws(found: Fitted) -> Table[str]:
    laws, smallest = found.fit.laws, min(one.aicc for one in found.fit.laws.values())
    return Table(list(found.fit.ranked), [
        Column("law", "law", lambda law: law.replace("_", " ")),
        Column("above", "AICc above the best", lambda law: laws[law].aicc - smallest, digits=3),
        Column("weight", "Akaike weight", lambda law: f"{found.fit.weights[law]:.2f}"),
        Column("r_squared", "R2", lambda law: f"{laws[law].r_squared:.2f}"),
        Column("status", "status", lambda law: laws[law].status),
    ])  # fmt: skip


def page(row: FitRow, settings: FitSettings) -> Document:
    """The page of one run."""
    found, curve = row.found, row.curve
    alt = "reward against step, with the fitted law"
    drawn = Figure(lambda: _drawn(row), alt, dpi=130, on_axes=lambda axes: _drawn_on(row, axes))
    sections: dict[str, Sequence[Block]] = {
        "": [*paragraphs(answer_lines(row, settings)), drawn],
        **judged(found.diagnosis, _severity_reasons(found)),
        "Fit": [*paragraphs(fit_lines(row)), parameter_table(row, settings.level, On.PAGE)],
        "Laws compared": [_laws(found)],
        "What was read": what_was_read(curve, curve.notes),
    }
    return Document(f"Fit of {row.log.name}", sections, folded=[*sections][1:])


def answer_lines(row: FitRow, settings: FitSettings) -> list[str]:
    """What a person wants first: what became of the run and what to do next, where it ends."""
    found = row.found
    said = [] if found.diagnosis is None else verdict_lines(found.diagnosis)
    plateau = plateau_text(row, settings.level)
    end = f"Plateau of the {found.best.law.replace('_', ' ')}: {plateau}."
    return [*said, end]


def _drawn(row: FitRow) -> "Drawn":
    from bandit_lab.runs.fit.plot import panel, run_figure

    return run_figure(panel(row))


def _drawn_on(row: FitRow, axes: "Axes") -> None:
    from bandit_lab.runs.fit.plot import panel, run_on

    run_on(axes, panel(row))


def _severity_reasons(found: Fitted) -> list[str]:
    grades = {} if found.diagnosis is None else found.diagnosis.severity
    return [f"{why[:1].upper()}{why[1:]}." for _, why in grades.values() if why]


def fit_lines(row: FitRow) -> list[str]:
    """Which law was chosen, how well it fits, and its reading."""
    best, share = row.found.best, explainable(row.found).value
    explained = "there is nothing but noise to explain" if share is None else f"{share:.2f} of what is explainable"
    lines = [
        f"{row.curve.step.size} points; the law with the smallest AICc is the {best.law.replace('_', ' ')}: "
        f"R2 = {best.r_squared:.2f} ({explained}).",
        f"Status: {row.found.status}.",
    ]
    if isinstance(found := row.found.reading, StiffnessReading):
        lines.append(
            f"Effective stiffness {number(found.stiffness, 3)} {interval_text([found.low, found.high])} reward per "
            f"logit^2; momentum would give a damping ratio of {number(found.damping_ratio_of_momentum, 3)}."
        )
    return lines


def dataset(table: Table[FitRow], settings: FitSettings) -> "xarray.Dataset":
    """Curves [run, point], laws [run, law], their curves [run, law, point], parameters [run, law, parameter]."""
    import xarray

    rows = [row for row in table.rows if row.result is not None]
    laws, names = list(settings.models), list(UNITS)

    def by_law(name: str, unit: str) -> Any:
        values = [[getattr(row.found.fit.laws[law], name) for law in laws] for row in rows]
        return ("run", "law"), np.array(values, float), {"units": unit}

    curves, coords = curves_of(rows)
    fitted = [padded([row.found.fit.laws[law].fitted for row in rows]) for law in laws]
    weights = [[row.found.fit.weights[law] for law in laws] for row in rows]
    coords |= {
        "law": ("law", laws),
        "parameter": ("parameter", names, {"long_name": "units stand in the variable `unit`"}),
    }
    variables: dict[str, Any] = {
        **curves,
        "fitted": (("run", "law", "point"), np.stack(fitted, axis=1), {"units": "reward"}),
        **table.variables("run", rows),
        "unit": (("parameter",), [UNITS[name] for name in names]),
        "aicc": by_law("aicc", "nats, times 2"),
        "weight": (("run", "law"), np.array(weights, float), {"units": "1"}),
        "r_squared": by_law("r_squared", "1"),
        "r_squared_explainable": by_law("r_squared_explainable", "1"),
    }
    for part in ("value", "low", "high", "standard_error"):
        values = [[[_number(row.found, law, name, part) for name in names] for law in laws] for row in rows]
        about = {"level": settings.level} if part in ("low", "high") else {}
        variables[f"parameter_{part}"] = (("run", "law", "parameter"), np.array(values, float), about)
    return xarray.Dataset(variables, coords, {"title": "bandit_lab fit"})


def _number(found: Fitted, law: str, name: str, part: str) -> float:
    estimate = found.fit.laws[law].parameters.get(name)
    return np.nan if estimate is None else float(getattr(estimate, part))
