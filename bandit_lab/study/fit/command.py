"""`fit`: closed-form laws on real reward logs, with intervals, a forecast, and a page to paste into an issue."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from bandit_lab import _checks
from bandit_lab.curves.fit.shapes import SHAPES
from bandit_lab.study.fit import table
from bandit_lab.study.fit.backtest import backtest
from bandit_lab.study.fit.dataset import dataset
from bandit_lab.study.fit.panels import panel
from bandit_lab.study.fit.report import file_names, write_overview, write_pages
from bandit_lab.study.fit.settings import FitSettings
from bandit_lab.study.fit.summary import interval_name, row
from bandit_lab.study.fit.work import Fitted, work
from bandit_lab.study.folder.clock import CompileClock
from bandit_lab.study.folder.manifest import manifest
from bandit_lab.study.folder.store import RunFolder
from bandit_lab.study.logs.gather import Log, gather, reading_options, require_all
from bandit_lab.study.pages.page import FOLDER
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.progress import Progress
from bandit_lab.theory import CONVENTIONS


@dataclass(frozen=True)
class Plan:
    """Checked settings and the logs, read."""

    settings: FitSettings
    logs: list[Log]


def prepare(settings: FitSettings, explicit: frozenset[str]) -> Plan:
    """Check every setting and read the logs. Raises ValueError if none of them holds a curve."""
    _checks.require(bool(settings.models), "models", "at least one of " + ", ".join(SHAPES), [])
    for place, law in enumerate(settings.models):
        _checks.choice(f"models[{place}]", law, SHAPES)
    _checks.require(len(set(settings.models)) == len(settings.models), "models", "different laws", settings.models)
    _checks.require(0.5 <= settings.level <= 0.99, "level", "a number in [0.5, 0.99]", settings.level)
    _checks.require(0 < settings.from_fraction <= 1, "from_fraction", "a number in (0, 1]", settings.from_fraction)
    for name in ("horizon", "learning_rate"):
        if getattr(settings, name) is not None:
            _checks.positive(name, getattr(settings, name))
    if settings.momentum is not None:
        _checks.momentum("momentum", settings.momentum)
    if settings.refresh_interval is not None:
        inside = _checks.positive("refresh_interval", settings.refresh_interval) >= 1
        _checks.require(inside, "refresh_interval", "a number >= 1", settings.refresh_interval)
    if settings.group_size is not None:
        _checks.integer("group_size", settings.group_size, 1)
    _checks.choice("convention", settings.convention, CONVENTIONS)
    _check_backtest(settings)
    _checks.integer("seed", settings.seed, 0)
    reading_options(settings)
    with Progress(settings.quiet).stage("reading") as advance:
        return Plan(settings, gather(settings, advance))


def _check_backtest(settings: FitSettings) -> None:
    _checks.integer("backtest_points", settings.backtest_points, 20)
    fractions = _checks.numbers("fractions", settings.fractions)
    _checks.require(bool(fractions), "fractions", "at least one share", settings.fractions)
    for place, fraction in enumerate(fractions):
        _checks.require(0 < fraction <= 0.85, f"fractions[{place}]", "a number in (0, 0.85]", fraction)
    if settings.backtest:
        laws = {"single_exponential", "sigmoid"}
        _checks.require(laws <= set(settings.models), "models", "the baselines' laws among them", settings.models)


def execute(plan: Plan, folder: RunFolder, progress: Progress) -> None:
    """Fit, forecast, print a table, write the run folder. Raises Incomplete if some logs could not be read."""
    start = time.perf_counter()
    settings = plan.settings
    folder.open(report.as_yaml(asdict(settings)))
    with CompileClock() as clock:
        fitted = fit_all(plan, progress)
        summary = summarise(plan, fitted, progress)
    done = [one for one in fitted if one is not None]
    with progress.stage("writing"):
        folder.write_results(dataset(done, settings))
        folder.write_summary(summary)
    with folder.staged() as place:
        if settings.pictures:
            with progress.stage("pictures"):
                from bandit_lab.study.plots import draw_runs

                draw_runs([panel(one) for one in done], place)
        if settings.report:
            with progress.stage("reports") as advance:
                write_pages(done, summary["logs"], place, settings, advance)
                write_overview(summary["logs"], place, settings)
    wall = time.perf_counter() - start
    stages = {name: round(value, 3) for name, value in progress.seconds.items()}
    folder.write_manifest(
        manifest("fit", asdict(settings) | {"precision": "float64"}, {}, clock.split(wall)) | {"stage_seconds": stages}
    )
    _print(summary, settings)
    require_all(plan.logs)


def fit_all(plan: Plan, progress: Progress) -> list[Fitted | None]:
    """One result per log, None where there is no curve."""
    results: list[Fitted | None] = []
    with progress.stage("fits, forecasts, verdicts") as advance:
        for log in plan.logs:
            results.append(None if log.curve is None else work(log, plan.settings))
            advance(len(results), len(plan.logs))
    return results


def summarise(plan: Plan, fitted: list[Fitted | None], progress: Progress) -> dict[str, Any]:
    """Content of `summary.json`."""
    settings = plan.settings
    rows = [row(log, one, settings) for log, one in zip(plan.logs, fitted, strict=True)]
    if settings.report:
        done = iter(file_names([one for one in fitted if one is not None]))
        for about, one in zip(rows, fitted, strict=True):
            if one is not None:
                about["page"] = f"{FOLDER}/{next(done)}.html"
    summary: dict[str, Any] = {"logs": rows}
    if settings.backtest:
        with progress.stage("back-test") as advance:
            summary["backtest"] = backtest([one for one in fitted if one is not None], settings, advance)
    return summary


def _print(summary: dict[str, Any], settings: FitSettings) -> None:
    rows, key = summary["logs"], interval_name(settings.level)
    report.show(table.runs_table(rows, key))
    done = [one for one in rows if one["model"] is not None]
    if len(done) == 1:
        report.show(*done[0]["recognised"], table.parameter_table(done[0], key), table.forecast_line(done[0]))
    for line in table.status_lines(rows):
        report.show(line)
    if "backtest" in summary:
        scores = [one for one in summary["backtest"]["scores"] if "covered" in one]
        report.show(table.backtest_table(scores), *table.refusal_lines(summary["backtest"]))
