"""`reproduce`: predict, measure, compare, draw; one experiment after the other, each kept as soon as it is measured."""

import gc
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import SkipTest

import jax

from bandit_lab import _checks
from bandit_lab._checks import did_you_mean
from bandit_lab.app.folder.store import CompileClock, RunFolder
from bandit_lab.app.progress import Progress, ProgressCallback, Stopped, stopped_by_disk, tell
from bandit_lab.app.result import Result, Table, number
from bandit_lab.app.settings.config import ReproduceSettings
from bandit_lab.lab.reproduce import claims, numbers, publish
from bandit_lab.lab.reproduce.cache import MEASURED, Cache
from bandit_lab.lab.reproduce.experiment import (
    QUALITIES,
    Experiment,
    Lab,
    Loaded,
    Results,
    discover,
    read_setting,
)
from bandit_lab.lab.reproduce.publish import DONE, FAILED, FORMATS, SKIPPED, Reproduced


@dataclass(frozen=True)
class _ReproducePlan:
    """Checked settings and the experiments to run."""

    settings: ReproduceSettings
    experiments: tuple[Experiment, ...]


def prepare(settings: ReproduceSettings, explicit: frozenset[str]) -> _ReproducePlan:
    """Check every setting. Raises ValueError."""
    by_id = discover()
    _checks.choice("quality", settings.quality, QUALITIES)
    names = _chosen(
        settings.figures, list(by_id) if settings.numbers is None else _published(Path(settings.numbers), by_id)
    )
    for one in _names("formats", settings.formats):
        _checks.choice("formats", one, FORMATS)
    if settings.publish is not None:
        publish.read(Path(settings.publish))
    return _ReproducePlan(settings, tuple(by_id[one] for one in names))


def _chosen(figures: Any, ids: list[str]) -> list[str]:
    """Ids of `all | name,name | [name, name]`, in the order of `ids`. Raises ValueError."""
    names = _names("figures", figures, "all, or ")
    for name in names:
        expected = f"all, or some of {', '.join(ids)}{did_you_mean(name, ids)}"
        _checks.require(name in ("all", *ids), "figures", expected, name)
    return [name for name in ids if name in names or "all" in names]


def _names(key: str, given: Any, other: str = "") -> list[str]:
    """Names of `one,other` or `[one, other]`. Raises ValueError."""
    names = given.split(",") if isinstance(given, str) else given
    _checks.require(isinstance(names, list) and bool(names), key, f"{other}names with commas between", given)
    return list(dict.fromkeys(str(name).strip() for name in names))


def _published(folder: Path, ids: Iterable[str]) -> list[str]:
    """The figures whose numbers are published in a folder. Raises ValueError where there are none."""
    there = publish.read(folder)["figures"]
    names = [one for one in ids if one in there and (folder / f"{one}.csv").is_file()]
    _checks.require(bool(names), "numbers", "a folder to which reproduce has published", str(folder))
    return names


def compute(plan: _ReproducePlan, progress: Progress) -> Result:
    """Run the experiments, and publish where that is asked for; no run folder."""
    outcomes = list(_outcomes(plan, progress))
    _publish(plan, outcomes)
    return _result_of(outcomes)


def execute(plan: _ReproducePlan, folder: RunFolder, progress: Progress) -> Result:
    """Run the experiments, write the run folder, publish.

    Where an experiment failed, everything else is written, but no manifest.
    """
    start, settings, outcomes = time.perf_counter(), plan.settings, list[Reproduced]()
    with stopped_by_disk(folder.path), CompileClock() as clock:
        folder.open(asdict(settings))
        for outcome in _outcomes(plan, progress):
            outcomes.append(outcome)
            (folder.path / f"{outcome.id}.error.txt").unlink(missing_ok=True)  # of an earlier try
            folder.write_files(outcome.files)
        result = _result_of(outcomes)
        with progress.stage("writing"):
            folder.write_summary(result.to_dict())
            publish.write_results(outcomes, folder.path)
            _publish(plan, outcomes)
        if not result.incomplete:
            about = {name: one for name, one in asdict(settings).items() if name not in ("publish", "cache")}
            about |= {"seed": None, "precision": "as each experiment states"}
            folder.finish("reproduce", about, clock.split(time.perf_counter() - start), progress.seconds)
    return result


def _outcomes(plan: _ReproducePlan, progress: Progress) -> Iterator[Reproduced]:
    for place, experiment in enumerate(plan.experiments, start=1):
        with progress.stage(f"{place}/{len(plan.experiments)} {experiment.id}") as advance:
            outcome = _run_one(experiment, plan.settings, advance)
        jax.clear_caches()  # programs of all experiments together would use up the system's memory maps
        gc.collect()
        if outcome.reason:
            tell(f"bandit_lab reproduce: {experiment.id} {outcome.status}: {outcome.reason}")
        yield outcome


def _publish(plan: _ReproducePlan, outcomes: list[Reproduced]) -> None:
    if plan.settings.publish is not None:
        publish.publish(outcomes, Path(plan.settings.publish), discover())


def _run_one(experiment: Experiment, settings: ReproduceSettings, advance: ProgressCallback) -> Reproduced:
    """One experiment from its prediction to its pictures. What goes wrong in it stays in its outcome."""
    start = time.perf_counter()
    outcome = Reproduced(experiment.id, DONE, question=experiment.question, quality=settings.quality)
    try:
        _fill(outcome, experiment, settings, advance)
    except SkipTest as error:
        outcome.status, outcome.reason = SKIPPED, str(error)
    except Stopped:
        raise
    except Exception as error:
        outcome.status, outcome.reason = FAILED, " ".join(f"{type(error).__name__}: {error}".split())
        outcome.files[f"{outcome.id}.error.txt"] = traceback.format_exc().encode()
    outcome.seconds = time.perf_counter() - start
    return outcome


def _fill(outcome: Reproduced, experiment: Experiment, settings: ReproduceSettings, advance: ProgressCallback) -> None:
    from bandit_lab.lab.reproduce import sheet

    loaded = experiment.load()
    outcome.title = loaded.title
    results = (
        _drawn_again(outcome, experiment, settings)
        if settings.numbers
        else _measured(outcome, loaded, settings, advance)
    )
    outcome.finding = claims.finding(loaded, outcome.rows)
    outcome.files = sheet.pictures(loaded, results, outcome.rows, _names("formats", settings.formats))
    if not settings.numbers:
        outcome.files[f"{experiment.id}.csv"] = numbers.as_csv(results).encode()
    outcome.results = results


def _measured(outcome: Reproduced, loaded: Loaded, settings: ReproduceSettings, advance: ProgressCallback) -> Results:
    setting = read_setting(loaded.id, settings.quality)
    loaded.check_available(setting)
    cache = Cache(None if settings.cache is None else Path(settings.cache), loaded, setting, settings.plugins)
    predicted = loaded.predict(setting)
    outcome.from_cache = cache.load(MEASURED) is not None
    measured = cache.keep(MEASURED, lambda: loaded.measure(setting, Lab(cache.keep, advance)))
    results = Results(predicted, measured, setting)
    outcome.rows = [claims.row(claim, results) for claim in loaded.claims]
    outcome.table = loaded.table(results) if loaded.table else ""
    return results


def _drawn_again(outcome: Reproduced, experiment: Experiment, settings: ReproduceSettings) -> Results:
    """The published numbers of a figure, with its claims as they were published."""
    folder = Path(str(settings.numbers))
    content = publish.read(folder)
    about = content["figures"][experiment.id]
    outcome.quality, outcome.table = about["quality"], about["table"] or ""
    outcome.rows = [row for row in content["claims"] if row["figure"] == experiment.id]
    text = (folder / f"{experiment.id}.csv").read_text(encoding="utf-8")
    return Results(*numbers.from_csv(text), read_setting(experiment.id, outcome.quality))


def _result_of(outcomes: Sequence[Reproduced]) -> Result:
    """The claims with their verdicts, and what became of every figure."""
    rows = [row for one in outcomes for row in one.rows]
    holding, failed = sum(row["holds"] for row in rows), [one.id for one in outcomes if one.status == FAILED]
    ends = {status: sum(one.status == status for one in outcomes) for status in (DONE, SKIPPED, FAILED)}
    counts = ", ".join(f"{count} {name}" for name, count in ends.items())
    figures = [
        {"id": one.id, "status": one.status, "reason": one.reason or None, "from_cache": one.from_cache,
         "seconds": round(one.seconds, 3)}
        for one in outcomes
    ]  # fmt: skip
    message = f"{len(rows)} claims, {holding} hold; figures: {counts}"
    incomplete = f"{len(failed)} of {len(outcomes)} figures failed ({', '.join(failed)})" if failed else ""
    table = []
    for row in rows:
        cells = {key: number(row[key], claims.DIGITS) for key in ("predicted", "measured", "tolerance")}
        table.append({"id": row["id"], **cells, "holds": "yes" if row["holds"] else "NO"})
    shown = (message, Table("claims", table))
    return Result("Claims", {"claims": rows, "figures": figures}, shown, incomplete=incomplete)
