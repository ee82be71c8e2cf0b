"""`diagnose`: the four failure modes on reward logs, with evidence and what could not be judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bandit_lab import _checks
from bandit_lab.app.document import Block, Document, On, Paragraph
from bandit_lab.app.document.write import perform
from bandit_lab.app.terminal.progress import Progress
from bandit_lab.runs import trainers
from bandit_lab.runs.diagnose import DIAGNOSTICS, DiagnoseSettings, control
from bandit_lab.runs.diagnose.agreement import sure
from bandit_lab.runs.diagnose.compare import compared
from bandit_lab.runs.diagnose.work import DiagnosisRow, dataset, page, runs_table, status, work
from bandit_lab.runs.logs.findings import caveat_lines, details, evidence_table, paragraphs
from bandit_lab.runs.logs.gather import Log, gather, missing_curves, reading_options
from bandit_lab.runs.logs.pictures import RUN_ALT
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


@dataclass(frozen=True)
class DiagnosePlan:
    """Checked settings, the logs, read, and the trainer's configuration where one was given."""

    settings: DiagnosisSettings
    logs: list[Log]
    setup: Setup | None = None

    @property
    def precision(self) -> str:
        """For the manifest."""
        return "float64" if self.settings.simulated is None else "float32"


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
    if settings.simulated is not None:
        from bandit_lab.runs.benchmark.plant import SPLITS

        _checks.choice("simulated", settings.simulated, SPLITS)
        _checks.require(not settings.paths and not settings.logs_index, "simulated", "no logs beside it", "both")
        if settings.runs is not None:
            _checks.integer("runs", settings.runs, 20)
        return DiagnosePlan(settings, [])
    _checks.require(settings.runs is None, "runs", "simulated=training or held_out with it", settings.runs)
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
    """Judge every log that has a curve; or the diagnostics themselves, on simulated runs."""
    settings, limits = plan.settings, thresholds(plan.settings)
    if settings.simulated is not None:
        from bandit_lab.runs.benchmark import run as benchmark
        from bandit_lab.runs.diagnose.benchmark import benchmark_blocks

        found = benchmark.score(settings.simulated, settings.runs, limits, run)
        return Document("Diagnoses of simulated runs", {"benchmark": benchmark_blocks(found, settings.report)})
    rows = rows_of(plan.logs, lambda log: work(log, limits, plan.setup), run, "verdicts", settings.report)
    done = [row for row in rows if row.result is not None]
    table = runs_table(rows)
    blocks: list[Block] = [Paragraph(LEGEND, On.PAGE), table]
    if len(done) == 1:
        blocks += paragraphs([f"What to do next: {done[0].found.next}", *sure(done[0].found)], On.TERMINAL)
        blocks += details(paragraphs(done[0].curve.recognised, On.TERMINAL))
        blocks += [evidence_table(done[0].found, On.TERMINAL), *paragraphs(caveat_lines(done[0].found), On.TERMINAL)]
    else:
        blocks.append(Paragraph(LEGEND, On.TERMINAL))
    blocks += paragraphs(status_lines(rows, status), On.TERMINAL)
    if settings.pictures and len(done) > 1:
        blocks += picture_pages(done, _page, "diagnoses", f"all runs: {RUN_ALT}")
    title = f"Diagnoses of {len(rows)} logs" if len(rows) > 1 else f"Diagnosis of {rows[0].log.name}"
    beside = compared(done) if len(done) == 2 else {}
    told = control.recipe(done[0].curve, plan.setup.trainer if plan.setup else None) if settings.control else []
    folded = ("differences", "logs") if beside else ()
    missing, stored = missing_curves(plan.logs), settings.report or len(rows) > 1
    numbers = partial(dataset, table, settings)
    pages = pages_of(rows, partial(page, control=told))
    sections = beside | {"logs": blocks} | ({"control": told} if told else {})
    return Document(title, sections, numbers, pages, missing, folded, stored)


def _page(rows: Sequence[DiagnosisRow]) -> "Drawn":
    from bandit_lab.runs.diagnose.plot import small_multiples

    return small_multiples(rows)


execute = perform("diagnose", compute)
