"""`diagnose`: the four failure modes on reward logs, with evidence and what could not be judged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from bandit_lab import _checks
from bandit_lab.app import engine
from bandit_lab.app.document import Block, Document, On, Paragraph
from bandit_lab.app.folder.store import INDEX
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs import trainers
from bandit_lab.runs.diagnose import DIAGNOSTICS, DiagnoseSettings, control
from bandit_lab.runs.diagnose.compare import compared
from bandit_lab.runs.diagnose.decide import decide
from bandit_lab.runs.diagnose.first_screen import key_numbers
from bandit_lab.runs.diagnose.work import SHORT, DiagnosisRow, dataset, page, runs_table, status, work
from bandit_lab.runs.logs.findings import (
    BRIEF,
    RUN_ALT,
    caveat_lines,
    details,
    evidence_table,
    paragraphs,
    verdict_lines,
    verdict_text,
)
from bandit_lab.runs.logs.gather import Log, gather, missing_curves, reading_options
from bandit_lab.runs.logs.pieces import worked
from bandit_lab.runs.logs.runs import check_trainer, pages_of, picture_pages, rows_of, status_lines
from bandit_lab.runs.logs.settings import THRESHOLDS, DiagnosisSettings
from bandit_lab.runs.trainers import Setup

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

LEGEND = (
    "Scores: 1 and more: the failure is there; a dash: the log cannot tell. Causes stand before effects. healthy: no "
    "failure among those that could be judged, at least half of them, and a gain that shows; else: not judged. "
    "note: it is there and has done no harm that shows."
)


_NEAR = 0.5
"""Share of its limit from which a number stands on the terminal."""


@dataclass(frozen=True)
class DiagnosePlan:
    """Checked settings, the logs, read, and the trainer's configuration where one was given."""

    settings: DiagnosisSettings
    logs: list[Log]
    setup: Setup | None = None
    precision: ClassVar[str] = "float64"


def thresholds(settings: DiagnosisSettings) -> DiagnoseSettings:
    """The diagnostics' thresholds and options. Raises ValueError for values out of range and unknown options."""
    for name, options in settings.diagnostic.items():
        _checks.require(isinstance(options, dict), f"diagnostic.{name}", "its options", options)
        DIAGNOSTICS.build(name, options)
    for name in DIAGNOSTICS:
        if DIAGNOSTICS.is_outside(name):
            DIAGNOSTICS.look_at(name, DIAGNOSTICS.build(name, settings.diagnostic.get(name, {})))
    known = {name: getattr(settings, name) for name in THRESHOLDS}
    return DiagnoseSettings(**known, options=settings.diagnostic)


def prepare(settings: DiagnosisSettings, explicit: frozenset[str]) -> DiagnosePlan:
    """Check every setting and read the logs. Raises ValueError if none of them holds a curve."""
    thresholds(settings)
    _checks.integer("seed", settings.seed, 0)
    check_trainer(settings)
    engine.chosen(settings)
    reading_options(settings)
    setup = None
    if settings.config is not None:
        setup = trainers.understand(trainers.load(settings.config), {})
    with Progress(settings.quiet).stage("reading") as advance:
        logs = gather(settings, advance)
    read = sum(log.curve is not None for log in logs)
    _checks.require(not settings.control or read == 1, "control", "one run to write the recipe for", f"{read} runs")
    return DiagnosePlan(settings, logs, setup)


def compute(plan: DiagnosePlan, run: Progress) -> Document:
    """Judge every log that has a curve."""
    settings, limits = plan.settings, thresholds(plan.settings)
    found = worked(plan.logs, partial(work, settings=limits, setup=plan.setup), settings, run, "verdicts")
    rows = rows_of(plan.logs, found, settings.report, INDEX)
    done = [row for row in rows if row.result is not None]
    table = runs_table(rows)
    blocks: list[Block] = [Paragraph(LEGEND, On.PAGE), table]
    if len(rows) == len(done) == 1:
        blocks = [replace(table, on=On.JSON | On.DATA), *_told(done[0])]
    else:
        blocks.append(Paragraph(LEGEND + (_short_names(done) if table.narrow else ""), On.TERMINAL))
    blocks += paragraphs(status_lines(rows, status), On.TERMINAL)
    if settings.pictures and len(done) > 1:
        blocks += picture_pages(done, _page, "diagnoses", f"all runs: {RUN_ALT}")
    title = f"Diagnoses of {len(rows)} logs" if len(rows) > 1 else f"Diagnosis of {rows[0].log.name}"
    beside = compared(done) if len(done) == 2 and all(row.curve.reward.size for row in done) else {}
    told = control.recipe(done[0].curve, plan.setup.trainer if plan.setup else None) if settings.control else []
    folded = ("differences", "logs") if beside else ()
    missing, stored = missing_curves(plan.logs), settings.report or len(rows) > 1
    numbers = partial(dataset, table, settings)
    pages = pages_of(rows, partial(page, control=told))
    sections = beside | {"logs": blocks} | ({"control": told} if told else {})
    return Document(title, sections, numbers, pages, missing, folded, stored)


def _short_names(rows: Sequence[DiagnosisRow]) -> str:
    """What the names in a table of many logs are short for."""
    used = {*SHORT, *(name for row in rows for name in row.found.verdict)}
    return f" {', '.join(f'{brief}: {name}' for name, brief in BRIEF.items() if name in used)}.".replace("_", " ")


def _told(row: DiagnosisRow) -> list[Block]:
    """One run on the terminal: verdict, what to do, two numbers; then what is near its limit, and what is open."""
    found, curve = row.found, row.curve
    sentence, *_, then = verdict_lines(found)
    count = f"{curve.reward.size or 'no'} reward{'s' if curve.reward.size != 1 else ''}"
    first = f"{row.log.name}, {count}: {verdict_text(found, False)}."
    near = evidence_table(found, On.TERMINAL, _NEAR)
    rest = len(found.evidence) - len(near.rows)
    said = [*decide(found), f"Read: {'; '.join(curve.recognised)}."]
    far = [f"{rest} more numbers are below half their limit: report and summary.json have them."] if rest else []
    return [
        *paragraphs([first, sentence, then], On.TERMINAL),
        replace(key_numbers(curve, found), on=On.TERMINAL),
        *details(paragraphs(said, On.TERMINAL)),
        near,
        *paragraphs([*far, *caveat_lines(found)], On.TERMINAL),
    ]


def _page(rows: Sequence[DiagnosisRow]) -> "Drawn":
    from bandit_lab.runs.diagnose.plot import small_multiples

    return small_multiples(rows)
