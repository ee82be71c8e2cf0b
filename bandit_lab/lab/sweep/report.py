"""The results of a sweep as a document: `summary.json`, and the tables on the terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab._types import Outcome
from bandit_lab.app.document import ABSENT, Block, Column, Document, On, Paragraph, Table, Value, Values
from bandit_lab.app.document.value import number
from bandit_lab.app.settings.config import SweepSettings
from bandit_lab.app.settings.grid import log_spaced_choice
from bandit_lab.app.terminal import report
from bandit_lab.lab.sweep import rows
from bandit_lab.lab.sweep.compute import Computed
from bandit_lab.lab.sweep.exact import Equilibrium
from bandit_lab.lab.sweep.pictures import figures_of, undrawn
from bandit_lab.lab.sweep.plan import SweepPlan
from bandit_lab.lab.sweep.rows import SweepRow
from bandit_lab.lab.sweep.sampled import SampledResult
from bandit_lab.measure import FixedPoint, count_outcomes
from bandit_lab.simulation import route
from bandit_lab.simulation.fast import DEFAULT_GENERATOR

if TYPE_CHECKING:
    import xarray

TEMPERATURE = (
    "At finite temperature (finite G) noise carries runs off the fixed point before it loses stability: the sampled "
    "boundary is below the deterministic one"
)
NO_FORMULA = "no formula for this bandit, advantage and group size"
SHOWN = 16
"""Rows of a table in the refresh interval, about."""


@dataclass(frozen=True)
class StiffnessRow:
    """One drift at one KL weight."""

    drift: str
    equilibrium: Equilibrium

    @property
    def kl_weight(self) -> float:
        """Of the drift."""
        return self.equilibrium.kl_weight

    def spectrum(self, route: str) -> Any:
        """Eigenvalues by a route, reward per logit^2, or the reason why there are none; ABSENT for a part of none."""
        found = self.equilibrium.stiffness
        if found is None:
            reason = self.equilibrium.point.reason or "no fixed point"
            return ABSENT if route.endswith("_spectrum") else Value.absent(reason)
        values = getattr(found, route)
        return Value.absent(found.hessian_reason or "none") if values is None else report.eigenvalue_list(values)

    @property
    def closed_form(self) -> Any:
        """Eigenvalues by a formula."""
        linear = self.equilibrium.linear
        if self.equilibrium.stiffness is None:
            return self.spectrum("relaxation")
        return report.eigenvalue_list(linear.spectrum) if linear.closed_form else Value.absent(NO_FORMULA)

    def at_rest(self, read: Callable[[FixedPoint], Any]) -> Any:
        """A value read off the fixed point; ABSENT where there is none."""
        return ABSENT if self.equilibrium.stiffness is None else read(self.equilibrium.point)

    @property
    def note(self) -> Any:
        """A remark beside the numbers."""
        note = self.equilibrium.linear.note
        return ABSENT if note is None else self.at_rest(lambda _: note)

    @property
    def critical_kl_weight(self) -> Any:
        """The least KL weight that has a fixed point, where this one has none."""
        return self.equilibrium.linear.critical_kl_weight if self.equilibrium.stiffness is None else ABSENT

    def missing(self) -> str | None:
        """A line where there is no fixed point."""
        if self.equilibrium.stiffness is not None:
            return None
        more = self.critical_kl_weight
        hint = f"; one exists from kl_weight = {more:.5g}" if more is not None else ""
        return f"{self.drift}, beta = {self.equilibrium.kl_weight:g}: {self.equilibrium.point.reason}{hint}"


def _eight(values: Any) -> str:
    return report.numbers(values, 8)


STIFFNESS: tuple[Column[StiffnessRow], ...] = (
    Column("drift", "drift", lambda row: row.drift),
    Column(
        "kl_weight", "beta", lambda row: row.equilibrium.kl_weight, text=lambda row: f"{row.equilibrium.kl_weight:g}"
    ),
    Column("hessian", "Hessian", lambda row: row.spectrum("hessian"), text=lambda row: _eight(row.spectrum("hessian"))),
    Column("closed_form", "closed form", lambda row: row.closed_form, text=lambda row: _eight(row.closed_form)),
    Column(
        "relaxation",
        "relaxation",
        lambda row: row.spectrum("relaxation"),
        text=lambda row: _eight(row.spectrum("relaxation")),
    ),
    Column("jacobian", "Jacobian", lambda row: row.spectrum("jacobian"), on=On.JSON),
    Column("fresh", "fresh", lambda row: row.spectrum("fresh_spectrum"), on=On.JSON),
    Column("stale", "stale", lambda row: row.spectrum("stale_spectrum"), on=On.JSON),
    Column("policy", "policy", lambda row: row.at_rest(lambda point: point.policy[0]), on=On.JSON),
    Column("policies", "policies", lambda row: row.at_rest(lambda point: point.policy), on=On.JSON),
    Column("expected_reward", "J", lambda row: row.at_rest(lambda point: point.expected_reward), on=On.JSON),
    Column("note", "note", lambda row: row.note, on=On.JSON),
    Column("critical_kl_weight", "critical beta", lambda row: row.critical_kl_weight, on=On.JSON),
)


@dataclass(frozen=True)
class CellThresholds:
    """A cell of the other axes: where stability is lost, and where oscillation begins."""

    threshold: SweepRow
    onset: SweepRow


def document_of(plan: SweepPlan, done: Computed, work: dict[str, Any], data: "xarray.Dataset") -> Document:
    """Everything that a sweep found. work: what of it took how long (`throughput`, `chunks`). data: see `dataset`."""
    rates, drifts, sampled = done.rates, done.drifts, done.sampled
    by_interval = plan.settings.boundary == "refresh_interval"
    pairs: list[CellThresholds] = []
    for drift in drifts:
        of_drift = sampled if drift.dynamics == "finite_group" else None
        found = rows.of_refresh_interval(drift, rates) if by_interval else rows.of_learning_rate(drift, of_drift)
        pairs += [CellThresholds(*both) for both in zip(*found, strict=True)]
    columns = rows.columns(plan.settings.boundary)
    thresholds, onsets = [pair.threshold for pair in pairs], [pair.onset for pair in pairs]
    stiffness = [StiffnessRow(drift.name, equilibrium) for drift in drifts for equilibrium in drift.equilibria]
    boundaries = _intervals(columns, thresholds) if by_interval else _rates(plan, columns, pairs)
    shown: list[Block] = [
        Paragraph(_what(plan)),
        *(Paragraph(line) for line in _moving(plan)),
        Table(stiffness, STIFFNESS, title="stiffness (reward / logit^2)", on=On.SHOWN),
        *(Paragraph(line) for line in map(StiffnessRow.missing, stiffness) if line),
        *(Paragraph(f"Note: {note}.") for note in dict.fromkeys(row.note for row in stiffness) if note is not ABSENT),
        *boundaries,
        Paragraph(_errors(thresholds, onsets)),
        *(Paragraph(line) for line in (*_not_used(plan), *undrawn(data))),
    ]
    about_runs: dict[str, Any] = {}
    if sampled is not None:
        about_runs = _engine(plan) | _sampled(sampled, thresholds)
        reason = f" ({about_runs['path_reason']})" if "path_reason" in about_runs else ""
        shown.append(Paragraph(f"sampled runs: {about_runs['path']} path{reason}, random numbers {about_runs['rng']}"))
        shown.append(Paragraph(about_runs["note"]))
    about = {
        "axes": axes(plan, rates),
        "drift": [drift.name for drift in drifts],
        "convention": plan.learner.optimizer.convention,
        "boundary": plan.settings.boundary,
        "outcomes": count_outcomes(drifts[0].outcome),
        "outcomes_of": f"deterministic runs near the fixed point, drift at {drifts[0].name}",
        "sampled": about_runs or None,
    }
    about |= {"schedule": {name: getattr(plan.settings, name) for name in plan.curves}} if plan.curves else {}
    first = {column.key: column.read(stiffness[0]) for column in STIFFNESS}
    return Document(
        "Sweep",
        {
            "": [*shown, *figures_of(data), Values(about, on=On.JSON)],
            "threshold": [Table(thresholds, columns, on=On.JSON)],
            "transition": [Table(onsets, columns, on=On.JSON)],
            "stiffness": [Values(first, on=On.JSON), Table(stiffness, STIFFNESS, name="rows", on=On.JSON)],
            **{key: [Values(values, on=On.JSON)] for key, values in work.items()},
        },
        data,
    )


def axes(plan: SweepPlan, rates: np.ndarray) -> dict[str, np.ndarray]:
    """The values of every axis."""
    names = ("momentum", "kl_weight", "refresh_interval")
    return {name: getattr(plan, name) for name in names} | {"learning_rate": rates}


def _what(plan: SweepPlan) -> str:
    convention, settings = plan.learner.optimizer.convention, plan.settings
    groups = [settings.bandit, settings.advantage, settings.estimator]
    groups += [settings.sampler, settings.correction] if settings.sampler["name"] != "exact" else []
    what = " ".join(group["name"] for group in groups)
    form = report.FORMS.get(convention, convention)
    return f"{what}, staleness {settings.staleness['name']}; momentum convention: {form}"


def _not_used(plan: SweepPlan) -> list[str]:
    """What was set of sampled runs where there are none."""
    dynamics, usual = plan.settings.dynamics, SweepSettings()
    names = ["seeds", "sampled", "keep_runs", "rng", "path"] + ["steps"] * (not plan.curves)
    names += ["group_size", "prompts"] * (dynamics == "mean_field")
    changed = [name for name in names if getattr(plan.settings, name) != getattr(usual, name)]
    told = changed and dynamics != "sampled"
    return [f"Not used with dynamics={dynamics}, which draws nothing: {', '.join(changed)}."] if told else []


def _moving(plan: SweepPlan) -> list[str]:
    """What a schedule means for the numbers that follow."""
    if plan.unjudged is None:
        return []
    peak = f"learning_rate on a schedule: values here are the largest ones of {plan.settings.steps:,} updates."
    return [peak, f"No run is given an outcome unless it ends at one arm ({plan.unjudged})."]


def _engine(plan: SweepPlan) -> dict[str, Any]:
    """Which path ran, why not the fast one, and where its random numbers come from."""
    chosen = route(plan.trained, "sampled", plan.settings.path)
    fast = chosen.name == "fast"
    why = {} if fast else {"path_reason": chosen.reason}
    return {
        "path": chosen.name,
        "rng": plan.settings.rng or DEFAULT_GENERATOR if fast else "jax.random",
    } | why


def _sampled(sampled: SampledResult, thresholds: list[SweepRow]) -> dict[str, Any]:
    """Outcomes, boundary and share of lost runs per row of the sampled grid."""
    return {
        "outcomes": {o.label: int(n) for o, n in zip(Outcome, sampled.counts.sum(axis=(0, 1)), strict=True)},
        "note": f"{TEMPERATURE}{_how_often(thresholds)}",
        "rows": [
            {
                "momentum": sampled.planned.rows.momentum[q],
                "kl_weight": sampled.planned.rows.kl_weight[q],
                "refresh_interval": sampled.planned.rows.refresh_interval[q],
                "boundary_learning_rate": sampled.boundary_at(q),
                "learning_rate": sampled.planned.learning_rate[q],
                "lost_share": sampled.lost[q],
            }
            for q in range(len(sampled.boundary))
        ],
    }


def _how_often(thresholds: list[SweepRow]) -> str:
    """In how many rows that is what was seen."""
    both = [(row.sampled.value, row.exact.value) for row in thresholds if row.sampled is not ABSENT]
    known = [sampled < exact for sampled, exact in both if sampled is not None and exact is not None]
    if not known:
        return "; here no row has both, so that nothing is compared."
    doubt = "" if all(known) else "; elsewhere the runs are too short or the grid too coarse to tell"
    return f" in {sum(known)} of {len(known)} rows{doubt}."


def _errors(thresholds: list[SweepRow], onsets: list[SweepRow]) -> str:
    lost, ring = ([abs(row.error.value) for row in of if row.error.value is not None] for of in (thresholds, onsets))
    return (
        f"largest relative error against the exact theory: threshold {number(max(lost, default=None), 2)} "
        f"({len(lost)} rows), onset of oscillation {number(max(ring, default=None), 2)} ({len(ring)} rows)"
    )


def _rates(plan: SweepPlan, columns: Sequence[Column[SweepRow]], pairs: list[CellThresholds]) -> list[Block]:
    """The table of a few rows, why cells of it are empty, and how many rows it leaves out."""
    few = plan.sampled_interval if len(plan.sampled_interval) else log_spaced_choice(plan.refresh_interval, 4)
    chosen, weight = {n.item() for n in few}, plan.kl_weight[0]
    shown = [p for p in pairs if p.threshold.refresh_interval in chosen and p.threshold.kl_weight == weight]
    of = {column.key: column for column in columns}
    rate = "measured_learning_rate"
    parts = (
        ("drift", "", "threshold"), ("momentum", "", "threshold"), ("refresh_interval", "", "threshold"),
        ("leading_order", "", "threshold"), ("exact", "", "threshold"), (rate, "", "threshold"),
        ("relative_error", "", "threshold"), ("exact", "onset exact", "onset"), (rate, "onset measured", "onset"),
        ("sampled_learning_rate", "", "threshold"),
    )  # fmt: skip
    table = Table(
        shown,
        [_of_pair(of[key], title, part) for key, title, part in parts],
        title="learning rate (eta) at which stability is lost, and at which oscillation begins",
        on=On.SHOWN,
    )
    thresholds, onsets = [p.threshold for p in shown], [p.onset for p in shown]
    names = {"law": "law", "exact": "exact threshold", "measured": "measured threshold", "sampled": "sampled boundary"}
    empty = _empty(thresholds, names) + _empty(onsets, {"exact": "exact onset", "measured": "measured onset"})
    return [table, *empty, *_left_out(len(shown), len(pairs))]


def _of_pair(column: Column[SweepRow], title: str, part: str) -> Column[CellThresholds]:
    key = column.key if part == "threshold" else f"{part}_{column.key}"
    return Column(key, title or column.title, lambda pair: column.read(getattr(pair, part)), column.unit, column.digits)


def _intervals(columns: Sequence[Column[SweepRow]], thresholds: list[SweepRow]) -> list[Block]:
    shown = thresholds[:: max(1, len(thresholds) // SHOWN)]
    keys = ("drift", "momentum", "learning_rate", "leading_order", "exact", "measured_refresh_interval")
    of = {column.key: column for column in columns}
    title = "refresh interval (steps) at which stability is lost"
    table = Table(shown, [of[key] for key in keys], title=title, on=On.SHOWN)
    empty = _empty(shown, {"law": "law", "exact": "exact", "measured": "measured"})
    return [table, *empty, *_left_out(len(shown), len(thresholds))]


def _empty(shown: list[SweepRow], names: dict[str, str]) -> list[Block]:
    """One line per reason why cells of the table are empty."""
    counts: dict[str, dict[str, int]] = {}
    for row in shown:
        for part, name in names.items():
            value = getattr(row, part)
            if value is not ABSENT and value.value is None:
                of = counts.setdefault(value.reason, {})
                of[name] = of.get(name, 0) + 1
    rows_of = lambda n: f"{n} row" + "s" * (n > 1)  # noqa: E731
    where = {reason: ", ".join(f"{name} ({rows_of(n)})" for name, n in of.items()) for reason, of in counts.items()}
    return [Paragraph(f"No {cells}: {reason}.") for reason, cells in where.items()]


def _left_out(shown: int, count: int) -> list[Block]:
    text = f"{shown} of {count} rows; all of them are in summary.json and results.zarr"
    return [Paragraph(text)] if shown < count else []
