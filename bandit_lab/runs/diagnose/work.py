"""What `diagnose` does to one run, and what it tells of it: columns of the table, its page, the data set of all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandit_lab.app.document import Block, Column, Document, On, Table, Value
from bandit_lab.runs import trainers
from bandit_lab.runs.diagnose import FAILURES, OUTCOMES, DiagnoseSettings, Diagnosis, Evidence, diagnose
from bandit_lab.runs.diagnose.decide import decide
from bandit_lab.runs.diagnose.first_screen import key_numbers
from bandit_lab.runs.logs.findings import (
    BRIEF,
    evidence_table,
    judged,
    paragraphs,
    run_drawn,
    verdict_first,
    verdict_lines,
    verdict_text,
    what_was_read,
)
from bandit_lab.runs.logs.gather import Log
from bandit_lab.runs.logs.runs import MANY, LogRow, column, curves_of, first_columns, last_columns, status_of
from bandit_lab.runs.logs.settings import THRESHOLDS, DiagnosisSettings
from bandit_lab.runs.read import Curve
from bandit_lab.runs.trainers import Setup, own_loop

if TYPE_CHECKING:
    import xarray

SHORT = {
    "reward_hacking": "hacking",
    "advantage_degeneracy": "degeneracy",
    "policy_concentration": "concentration",
    "dynamical_instability": "instability",
}
NO_BASELINE = ("no_baseline", "no_group")
"""Traps of trainers' settings that leave GRPO without a baseline."""
DiagnosisRow = LogRow[Diagnosis]


def work(log: Log, settings: DiagnoseSettings, setup: Setup | None = None) -> Diagnosis:
    """Judge one run that has a curve; a trainer's configuration tells G and K_ref where nobody else did: the one given,
    or else the one that stands in the log."""
    assert log.curve is not None
    size, interval = log.group_size, log.refresh_interval
    extra: tuple[str, ...] = ()
    found_there = _in_log(log.curve) if setup is None else None
    if setup is not None:
        known = setup.number("group_size")
        size = size or (int(known) if known else None)
        interval = interval or setup.loop.interval
        extra = tuple(f"{trap.text} ({trap.source})" for trap in setup.traps)
    elif found_there is not None and (fact := found_there.facts.get("group_size")) and fact.origin != "default":
        size = size or int(found_there.number("group_size") or 0) or None
    found = diagnose(log.curve, settings, size, interval)
    extra = (*(one for one in [_without_baseline(setup or found_there, size)] if one), *extra)
    return replace(found, traps=(*dict.fromkeys((*found.traps, *extra)),))


def _in_log(curve: Curve) -> Setup | None:
    """The settings that a log holds; None without any, or where they make no sense."""
    logged = trainers.settings_of_log(curve.source, curve.settings)
    try:
        return None if logged is None else trainers.understand(None, {}, logged=logged, log_of=curve.framework)
    except ValueError:
        return None


def _without_baseline(setup: Setup | None, size: int | None) -> str:
    """That the advantage has no group to compare with, in words; nothing where it has, or where nobody knows."""
    if setup is None or setup.trainer is own_loop.TRAINER:
        return "one answer per prompt: there is no group to compare it with" if size == 1 else ""
    return next((trap.text for trap in setup.traps if trap.name in NO_BASELINE), "")


def runs_table(rows: Sequence[DiagnosisRow]) -> Table[DiagnosisRow]:
    """One line per log: verdict, the four scores (1 and more: the failure is there), the table's outcome beside it."""

    def score(name: str, title: str, on: On, brief: str = "") -> Column[DiagnosisRow]:
        return column(name, title, lambda row: row.found.scores[name], digits=2, on=on, brief=brief, width=4)

    columns: list[Column[DiagnosisRow]] = [
        *first_columns(26, width=4),
        *(score(name, title, On.TERMINAL, BRIEF[name]) for name, title in SHORT.items()),
        *(score(name, name.replace("_", " "), On.PAGE) for name in (*FAILURES, *OUTCOMES)),
        column("verdict", "verdict", lambda row: list(row.found.verdict), null=True, on=On.JSON | On.SHOWN,
               text=lambda row: verdict_text(row.found, False), short=lambda row: verdict_text(row.found, True)),
        column("next", "what to do next", lambda row: row.found.next, on=On.JSON | On.PAGE, left=True),
        column("severity", "severity", lambda row: {name: grade for name, (grade, _) in row.found.severity.items()},
               on=On.JSON),
        column("gained", "gained", lambda row: row.found.gained, on=On.JSON),
        column("scores", "scores", lambda row: {one.failure: Value.of(one.score, one.missing or "not judged")
                                                for one in row.found.findings}, null=True, on=On.JSON),
        column("evidence", "evidence", lambda row: evidence_table(row.found), null=True, on=On.JSON),
        column("missing", "missing", lambda row: list(row.found.missing), null=True, on=On.JSON),
        column("traps", "traps", lambda row: list(row.found.traps), on=On.JSON),
        column("remarks", "remarks", lambda row: list(row.found.remarks), on=On.JSON),
        column("recognised", "recognised", lambda row: list(row.curve.recognised), on=On.JSON),
    ]  # fmt: skip
    outcome, state, page = last_columns(rows, 26, status)
    unjudged = Column[DiagnosisRow](
        "unjudged", "not judged", lambda row: status_of(row, lambda _: "; ".join(row.found.missing))
    )
    last = [outcome, replace(unjudged, on=On.PAGE), replace(state, on=On.JSON), page]
    return Table(rows, [*columns, *last], narrow=len(rows) >= MANY)


def status(row: DiagnosisRow) -> str:
    """The status of a log with a curve."""
    return "ok"


def page(row: DiagnosisRow, control: Sequence[Block] = ()) -> Document:
    """The page of one run: verdict, what to do, picture, two numbers; the rest folded."""
    found, outcome = row.found, row.log.outcome
    said = [f"The table of runs says: {outcome}."] if outcome else []
    scores = Table(list(found.scores.items()), [
        Column("failure", "failure", lambda it: it[0].replace("_", " ")),
        Column("score", "score (1 and more: it is there)", lambda it: it[1], digits=2),
    ])  # fmt: skip
    sections: dict[str, Sequence[Block]] = {
        "": [
            *verdict_first(found),
            *paragraphs(said),
            run_drawn(row.log.name, row.curve, found),
            key_numbers(row.curve, found),
        ],
        **({"What would decide": paragraphs(lines)} if (lines := decide(found)) else {}),
        **judged(found, verdict_lines(found)[:-1]),
        "Scores": [scores],
        **({"Control run": control} if control else {}),
        "What was read": what_was_read(row.curve),
    }
    return Document(f"Diagnosis of {row.log.name}", sections, folded=[*sections][1:])


class Cell(NamedTuple):
    """What one diagnostic says of one run: its strongest evidence, the grade of what was found, and why."""

    judged: bool = False
    fires: bool = False
    metric: str = ""
    score: float | None = None
    statistic: float = np.nan
    threshold: float = np.nan
    first_step: float = np.nan
    last_step: float = np.nan
    severity: str = ""
    reason: str = ""


def dataset(table: Table[DiagnosisRow], settings: DiagnosisSettings) -> "xarray.Dataset":
    """Curves [run, point], what each diagnostic says [run, failure], every number it rests on [run, measure].

    A failure's statistic and threshold are those of its strongest evidence. A run without a measure has NaN there.
    """
    import xarray

    rows = [row for row in table.rows if row.result is not None]
    failures = list(dict.fromkeys(finding.failure for row in rows for finding in row.found.findings))
    seen = [_seen(row.found) for row in rows]
    measures = list(dict.fromkeys(name for evidence in seen for name in evidence))
    curves, coords = curves_of(rows)
    coords |= {
        "failure": ("failure", failures),
        "measure": ("measure", measures, {"long_name": "failure:number that it is told from"}),
    }
    variables: dict[str, Any] = {
        **curves,
        **table.variables("run", rows),
        "n_points": (("run",), [row.curve.reward.size for row in rows], {"units": "1"}),
        "verdict": (("run",), [", ".join(row.found.verdict) for row in rows]),
        "outcome": (("run",), [row.log.outcome for row in rows], {"long_name": "what the table of runs says"}),
        "gained": (("run",), [row.found.gained for row in rows], {"long_name": "the reward shows a gain"}),
        **_by_failure([[_cell(row.found, name) for name in failures] for row in rows]),
        **_by_measure([[evidence.get(name) for name in measures] for evidence in seen]),
    }
    about = {name: getattr(settings, name) for name in THRESHOLDS}
    return xarray.Dataset(variables, coords, {"title": "bandit_lab diagnose", **about})


def _cell(found: Diagnosis, failure: str) -> Cell:
    finding = next((one for one in found.findings if one.failure == failure), None)
    if finding is None:
        return Cell()
    severity, reason = found.severity.get(failure, ("", finding.missing))
    if not finding.evidence:
        return Cell(finding.score is not None, severity=severity, reason=reason)
    best = max(finding.evidence, key=lambda evidence: evidence.score)
    return Cell(finding.score is not None, finding.present, best.metric, finding.score, best.value, best.threshold,
                *best.window, severity, reason)  # fmt: skip


def _by_failure(cells: Sequence[Sequence[Cell]]) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    for place, (name, kind) in enumerate(Cell.__annotations__.items()):
        number, wide = kind not in (bool, str), name in ("severity", "reason")
        values = np.array(
            [[cell[place] for cell in row] for row in cells], float if number else object if wide else None
        )
        units = {"units": "steps" if name.endswith("step") else "1"} if number else {}
        variables[name] = (("run", "failure"), values, units)
    return variables


def _seen(found: Diagnosis) -> dict[str, Evidence]:
    """Every piece of evidence by `failure:metric`, whether it decides or not."""
    return {f"{finding.failure}:{one.metric}": one for finding in found.findings for one in finding.evidence}


def _by_measure(rows: Sequence[Sequence[Evidence | None]]) -> dict[str, Any]:
    dims, variables = ("run", "measure"), {}
    for name, key in {"value": "value", "limit": "threshold", "evidence_score": "score"}.items():
        values = [[np.nan if one is None else getattr(one, key) for one in row] for row in rows]
        variables[name] = (dims, np.array(values, float), {"units": "1"})
    texts = [["" if one is None else one.text for one in row] for row in rows]
    return variables | {"evidence": (dims, np.array(texts, object))}
