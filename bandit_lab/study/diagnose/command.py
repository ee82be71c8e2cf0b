"""`diagnose`: the four failure modes on reward logs, with evidence and what could not be judged."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from bandit_lab import _checks
from bandit_lab.curves import trainers
from bandit_lab.curves.trainers import Setup
from bandit_lab.study.benchmark import run as benchmark
from bandit_lab.study.diagnose import table
from bandit_lab.study.diagnose.dataset import dataset
from bandit_lab.study.diagnose.page import write_overview, write_pages
from bandit_lab.study.diagnose.picture import picture_of
from bandit_lab.study.diagnose.settings import DiagnosisSettings, thresholds
from bandit_lab.study.diagnose.work import Judged, row, work
from bandit_lab.study.folder.clock import CompileClock
from bandit_lab.study.folder.manifest import manifest
from bandit_lab.study.folder.store import RunFolder
from bandit_lab.study.logs.gather import Log, gather, reading_options, require_all
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.progress import Progress


@dataclass(frozen=True)
class Plan:
    """Checked settings, the logs, read, and the trainer's configuration where one was given."""

    settings: DiagnosisSettings
    logs: list[Log]
    setup: Setup | None = None


def prepare(settings: DiagnosisSettings, explicit: frozenset[str]) -> Plan:
    """Check every setting and read the logs. Raises ValueError if none of them holds a curve."""
    thresholds(settings)
    _checks.integer("seed", settings.seed, 0)
    if settings.refresh_interval is not None:
        inside = _checks.positive("refresh_interval", settings.refresh_interval) >= 1
        _checks.require(inside, "refresh_interval", "a number >= 1", settings.refresh_interval)
    if settings.group_size is not None:
        _checks.integer("group_size", settings.group_size, 1)
    if settings.simulated is not None:
        _checks.choice("simulated", settings.simulated, benchmark.SPLITS)
        _checks.require(not settings.paths and not settings.logs_index, "simulated", "no logs beside it", "both")
        if settings.runs is not None:
            _checks.integer("runs", settings.runs, 20)
        return Plan(settings, [])
    _checks.require(settings.runs is None, "runs", "simulated=training or held_out with it", settings.runs)
    reading_options(settings)
    setup = None
    if settings.config is not None:
        setup = trainers.understand(trainers.load(settings.config), {})
    with Progress(settings.quiet).stage("reading") as advance:
        return Plan(settings, gather(settings, advance), setup)


def execute(plan: Plan, folder: RunFolder, progress: Progress) -> None:
    """Judge, print a table, write the run folder. Raises Incomplete if some logs could not be read."""
    start = time.perf_counter()
    settings = plan.settings
    folder.open(report.as_yaml(asdict(settings)))
    clock = CompileClock()
    if settings.simulated is not None:
        with clock:
            found = benchmark.score(settings.simulated, settings.runs, thresholds(settings), progress)
        folder.write_summary({"benchmark": found})
        if settings.report:
            from bandit_lab.study.plots import draw_recall

            with folder.staged() as place:
                draw_recall(found, place)
        shown = table.benchmark_tables(found)
    else:
        with clock:
            shown = table.tables(_logs(plan, folder, progress))
    wall = time.perf_counter() - start
    stages = {name: round(value, 3) for name, value in progress.seconds.items()}
    about = asdict(settings) | {"precision": "float64" if settings.simulated is None else "float32"}
    folder.write_manifest(manifest("diagnose", about, {}, clock.split(wall)) | {"stage_seconds": stages})
    report.show(*shown)
    require_all(plan.logs)


def _logs(plan: Plan, folder: RunFolder, progress: Progress) -> list[dict[str, Any]]:
    """Judge every log and write what was found; one row per log."""
    settings, limits = plan.settings, thresholds(plan.settings)
    judged: list[Judged | None] = []
    with progress.stage("verdicts") as advance:
        for log in plan.logs:
            judged.append(None if log.curve is None else work(log, limits, plan.setup))
            advance(len(judged), len(plan.logs))
    rows: list[dict[str, Any]] = [row(log, one) for log, one in zip(plan.logs, judged, strict=True)]
    done = [one for one in judged if one is not None]
    with progress.stage("writing"):
        folder.write_results(dataset(done, settings))
    with folder.staged() as place:
        if settings.pictures and len(done) > 1:
            with progress.stage("pictures"):
                from bandit_lab.study.plots import draw_diagnoses

                draw_diagnoses([picture_of(one) for one in done], place)
        if settings.report:
            with progress.stage("reports") as advance:
                write_pages(judged, rows, place, advance)
                write_overview(rows, place)
    folder.write_summary({"logs": rows})
    return rows
