"""What `diagnose` does to one run, and what it tells of it: columns of the table, its page, its picture."""

from collections.abc import Sequence
from dataclasses import replace

from bandit_lab.curves.diagnose import FAILURES, OUTCOMES, DiagnoseSettings, Diagnosis, diagnose
from bandit_lab.curves.trainers import Setup
from bandit_lab.study.document import Block, Column, Document, On, Table, Value
from bandit_lab.study.logs.findings import (
    BRIEF,
    evidence_table,
    judged,
    paragraphs,
    run_drawn,
    verdict_lines,
    verdict_text,
    what_was_read,
)
from bandit_lab.study.logs.gather import Log
from bandit_lab.study.logs.runs import MANY, LogRow, column, first_columns, last_columns, status_of

SHORT = {
    "reward_hacking": "hacking",
    "advantage_degeneracy": "degeneracy",
    "policy_concentration": "concentration",
    "dynamical_instability": "instability",
}
Run = LogRow[Diagnosis]


def work(log: Log, settings: DiagnoseSettings, setup: Setup | None = None) -> Diagnosis:
    """Judge one run that has a curve; a trainer's configuration tells G and K_ref where nobody else did."""
    assert log.curve is not None
    size, interval = log.group_size, log.refresh_interval
    extra: tuple[str, ...] = ()
    if setup is not None:
        known = setup.number("group_size")
        size = size or (int(known) if known else None)
        interval = interval or setup.loop.interval
        extra = tuple(f"{trap.text} ({trap.source})" for trap in setup.traps)
    found = diagnose(log.curve, settings, size, interval)
    return replace(found, traps=(*dict.fromkeys((*found.traps, *extra)),))


def runs_table(rows: Sequence[Run]) -> Table[Run]:
    """One line per log: verdict, the four scores (1 and more: the failure is there), the table's outcome beside it."""

    def score(name: str, title: str, on: On, brief: str = "") -> Column[Run]:
        return column(name, title, lambda row: row.found.scores[name], digits=2, on=on, brief=brief, width=4)

    columns: list[Column[Run]] = [
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
    unjudged = Column[Run]("unjudged", "not judged", lambda row: status_of(row, lambda _: "; ".join(row.found.missing)))
    last = [outcome, replace(unjudged, on=On.PAGE), replace(state, on=On.JSON), page]
    return Table(rows, [*columns, *last], narrow=len(rows) >= MANY)


def status(row: Run) -> str:
    """The status of a log with a curve."""
    return "ok"


def page(row: Run) -> Document:
    """The page of one run, to be pasted into an issue: verdict, picture and scores; the rest is folded."""
    found, outcome = row.found, row.log.outcome
    said = [f"The table of runs says: {outcome}."] if outcome else []
    scores = Table(list(found.scores.items()), [
        Column("failure", "failure", lambda it: it[0].replace("_", " ")),
        Column("score", "score (1 and more: it is there)", lambda it: it[1], digits=2),
    ])  # fmt: skip
    sections: dict[str, Sequence[Block]] = {
        "": [*paragraphs([*verdict_lines(found), *said]), run_drawn(row.log.name, row.curve, found)],
        "Scores": [scores],
        **judged(found),
        "What was read": what_was_read(row.curve),
    }
    return Document(f"Diagnosis of {row.log.name}", sections, folded=[*sections][2:])
