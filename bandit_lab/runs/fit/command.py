"""`fit`: closed-form laws on real reward logs, with intervals and a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from bandit_lab import _checks
from bandit_lab.app import engine
from bandit_lab.app.document import Block, Document, On
from bandit_lab.app.folder.store import INDEX
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs.fit import show
from bandit_lab.runs.fit.shapes import SHAPES
from bandit_lab.runs.fit.work import work
from bandit_lab.runs.logs.findings import details, paragraphs
from bandit_lab.runs.logs.gather import Log, gather, missing_curves, reading_options
from bandit_lab.runs.logs.pieces import worked
from bandit_lab.runs.logs.runs import LogRow, check_trainer, pages_of, picture_pages, rows_of, status_lines
from bandit_lab.runs.logs.settings import FitSettings
from bandit_lab.theory.conventions import OF_OPTIMIZER

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


@dataclass(frozen=True)
class FitPlan:
    """Checked settings and the logs, read."""

    settings: FitSettings
    logs: list[Log]
    precision: ClassVar[str] = "float64"


def prepare(settings: FitSettings, explicit: frozenset[str]) -> FitPlan:
    """Check every setting and read the logs. Raises ValueError if none of them holds a curve."""
    _checks.require(bool(settings.models), "models", "at least one of " + ", ".join(SHAPES), [])
    for place, law in enumerate(settings.models):
        _checks.choice(f"models[{place}]", law, SHAPES)
    _checks.require(len(set(settings.models)) == len(settings.models), "models", "different laws", settings.models)
    _checks.require(0.5 <= settings.level <= 0.99, "level", "a number in [0.5, 0.99]", settings.level)
    if settings.learning_rate is not None:
        _checks.positive("learning_rate", settings.learning_rate)
    if settings.momentum is not None:
        _checks.momentum("momentum", settings.momentum)
    check_trainer(settings)
    _checks.choice("optimizer", settings.optimizer["name"], OF_OPTIMIZER)
    _checks.integer("seed", settings.seed, 0)
    engine.chosen(settings)
    reading_options(settings)
    with Progress(settings.quiet).stage("reading") as advance:
        return FitPlan(settings, gather(settings, advance))


def compute(plan: FitPlan, run: Progress) -> Document:
    """Fit and judge every log that has a curve."""
    settings = plan.settings
    found = worked(plan.logs, partial(work, settings=settings), settings, run, "fits, verdicts")
    rows = rows_of(plan.logs, found, settings.report, INDEX)
    done = [row for row in rows if row.result is not None]
    table = show.runs_table(rows, settings)
    blocks: list[Block] = [table]
    if len(done) == 1:
        (row,) = done
        if row.found.diagnosis is not None:
            blocks += paragraphs([f"What to do next: {row.found.diagnosis.next}"], On.TERMINAL)
        blocks += details(paragraphs([*row.curve.recognised, show.fit_lines(row)[0]], On.TERMINAL))
        blocks.append(show.parameter_table(row, settings.level, On.TERMINAL, f"{row.log.name}: {row.found.best.law}"))
    blocks += paragraphs(status_lines(rows, show.status), On.TERMINAL)
    if settings.pictures:
        blocks += picture_pages(done, _page, "fits", "reward against step, all runs")
    pages = pages_of(rows, lambda row: show.page(row, settings))
    numbers, stored = partial(show.dataset, table, settings), settings.report or len(rows) > 1
    missing = missing_curves(plan.logs)
    title = f"Fits of {len(rows)} logs" if len(rows) > 1 else f"Fit of {rows[0].log.name}"
    return Document(title, {"logs": blocks}, numbers, pages, missing, stored=stored)


def _page(rows: Sequence[LogRow[Any]]) -> "Drawn":
    from bandit_lab.runs.fit.plot import panel, small_multiples

    return small_multiples([panel(row) for row in rows])
