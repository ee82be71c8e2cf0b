"""`reproduce`: predict, measure, compare, draw; one experiment after the other, each kept as soon as it is measured."""

import contextlib
import gc
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

from bandit_lab import _checks
from bandit_lab._text import did_you_mean
from bandit_lab.app import engine
from bandit_lab.app.folder.manifest import CompileClock, manifest
from bandit_lab.app.folder.store import RunFolder, check_manifest, manifest_of
from bandit_lab.app.result import Result, Table
from bandit_lab.app.settings.config import ReproduceSettings
from bandit_lab.app.terminal.errors import Incomplete, Stopped, bad_input, stopped_by_disk
from bandit_lab.app.terminal.output import tell
from bandit_lab.app.terminal.progress import Progress, ProgressCallback
from bandit_lab.lab.reproduce import claims, elsewhere, numbers, publish
from bandit_lab.lab.reproduce.cache import MEASURED, Cache
from bandit_lab.lab.reproduce.experiment import (
    QUALITIES,
    Experiment,
    Lab,
    Loaded,
    Results,
    Setting,
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
    known = discover()
    _checks.choice("quality", settings.quality, QUALITIES)
    names = _chosen(
        settings.figures, list(known) if settings.numbers is None else _published(Path(settings.numbers), known)
    )
    _check_formats(settings.formats)
    engine.chosen(settings)
    kept = settings.cache is not None or _is_local(settings)
    _checks.require(kept, "cache", "a folder for what the engine's workers measure", None)
    if settings.publish is not None:
        publish.read(Path(settings.publish))
    return _ReproducePlan(settings, tuple(known[one] for one in names))


def _is_local(settings: ReproduceSettings) -> bool:
    return bool(settings.engine["name"] == "local")


def _chosen(figures: Any, known: list[str]) -> list[str]:
    """Ids of `all | name,name | [name, name]`, in the order of `known`. Raises ValueError."""
    names = figures.split(",") if isinstance(figures, str) else figures
    _checks.require(isinstance(names, list) and bool(names), "figures", "all, or names with commas between", figures)
    names = [str(name).strip() for name in names]
    for name in names:
        expected = f"all, or some of {', '.join(known)}{did_you_mean(name, known)}"
        _checks.require(name in ("all", *known), "figures", expected, name)
    return [name for name in known if name in names or "all" in names]


def _check_formats(given: Any) -> tuple[str, ...]:
    """Formats of `png,pdf` or `[png, pdf]`. Raises ValueError."""
    names = given.split(",") if isinstance(given, str) else given
    _checks.require(isinstance(names, list) and bool(names), "formats", "names with commas between", given)
    for name in names:
        _checks.choice("formats", str(name).strip(), FORMATS)
    return tuple(dict.fromkeys(str(name).strip() for name in names))


def _published(folder: Path, known: Iterable[str]) -> list[str]:
    """The figures whose numbers are published in a folder. Raises ValueError where there are none."""
    there = publish.read(folder)["figures"]
    names = [one for one in known if one in there and (folder / f"{one}.csv").is_file()]
    _checks.require(bool(names), "numbers", "a folder to which reproduce has published", str(folder))
    return names


def check_folder(plan: _ReproducePlan, folder: Path) -> None:
    """Raise ValueError if the folder holds a finished run. Only reads."""
    if not plan.settings.overwrite:
        check_manifest(folder)
        got = f"a finished run in {folder}"
        _checks.require(manifest_of(folder) is None, "run_dir", "a new folder, or overwrite=true", got)


def execute(plan: _ReproducePlan, folder: RunFolder, progress: Progress) -> Result:
    """Run the experiments, write the run folder, publish, print the claims.

    Raises Incomplete where an experiment failed; everything else is written then, but no manifest.
    """
    start, settings, outcomes = time.perf_counter(), plan.settings, []
    with stopped_by_disk(folder.path), CompileClock() as clock:
        folder.open(asdict(settings))
        failed = {} if _is_local(settings) or settings.numbers else _measured_elsewhere(plan, progress)
        for place, experiment in enumerate(plan.experiments, start=1):
            with progress.stage(f"{place}/{len(plan.experiments)} {experiment.id}") as advance:
                outcomes.append(_run_one(experiment, settings, advance, failed.get(experiment.id)))
            publish.write_outcome(outcomes[-1], folder)
            _forget_programs()
            if outcomes[-1].reason:
                tell(f"bandit_lab reproduce: {experiment.id} {outcomes[-1].status}: {outcomes[-1].reason}")
        found = _result_of(outcomes)
        with progress.stage("writing"):
            folder.write_summary(found.to_dict())
            publish.write_results(outcomes, folder.path)
            if settings.publish is not None:
                publish.publish(outcomes, Path(settings.publish), discover())
        if found.incomplete:
            found.show()
            raise Incomplete(found.incomplete, found)
        about = {name: one for name, one in asdict(settings).items() if name not in ("publish", "cache", "engine")}
        about |= {"seed": None, "precision": "as each experiment states"}
        stages = {name: round(value, 3) for name, value in progress.seconds.items()}
        seconds = clock.split(time.perf_counter() - start)
        folder.write_manifest(manifest("reproduce", about, {}, seconds) | {"stage_seconds": stages})
    found.show()
    return found


def _measured_elsewhere(plan: _ReproducePlan, progress: Progress) -> dict[str, str]:
    """Have the engine's workers measure what is not in the cache. Returns experiment -> why it failed there."""
    settings = plan.settings
    opened = engine.chosen(settings).opened
    with contextlib.ExitStack() as stack:
        with bad_input():
            attempts = stack.enter_context(opened(settings.plugins))
        advance = stack.enter_context(progress.stage("measuring"))
        cache_of = partial(_cache, settings)
        return elsewhere.measure(plan.experiments, settings.quality, settings.plugins, cache_of, attempts, advance)


def _cache(settings: ReproduceSettings, loaded: Loaded, setting: Setting) -> Cache:
    return Cache(None if settings.cache is None else Path(settings.cache), loaded, setting, settings.plugins)


def _run_one(
    experiment: Experiment, settings: ReproduceSettings, advance: ProgressCallback, failed: str | None = None
) -> Reproduced:
    """One experiment from its prediction to its pictures. What goes wrong in it stays in its outcome.

    failed: why its measurement failed on a worker.
    """
    start = time.perf_counter()
    outcome = Reproduced(experiment.id, DONE, question=experiment.question, quality=settings.quality)
    if failed is not None:
        outcome.status, outcome.reason = FAILED, failed
        return outcome
    try:
        _fill(outcome, experiment, settings, advance)
    except SkipTest as error:
        outcome.status, outcome.reason = SKIPPED, str(error)
    except Stopped:
        raise
    except Exception as error:
        outcome.status, outcome.reason = FAILED, " ".join(f"{type(error).__name__}: {error}".split())
        outcome.traceback = traceback.format_exc()
    outcome.seconds = time.perf_counter() - start
    return outcome


def _fill(outcome: Reproduced, experiment: Experiment, settings: ReproduceSettings, advance: ProgressCallback) -> None:
    from bandit_lab.lab.reproduce import sheet

    loaded = experiment.load()
    outcome.title = loaded.title
    found = (
        _drawn_again(outcome, experiment, settings)
        if settings.numbers
        else _measured(outcome, loaded, settings, advance)
    )
    outcome.finding = claims.finding(loaded, outcome.rows)
    outcome.files = sheet.pictures(loaded, found, outcome.rows, _check_formats(settings.formats))
    if not settings.numbers:
        outcome.files[f"{experiment.id}.csv"] = numbers.as_csv(found).encode()
    outcome.found = found


def _measured(outcome: Reproduced, loaded: Loaded, settings: ReproduceSettings, advance: ProgressCallback) -> Results:
    setting = read_setting(loaded.id, settings.quality)
    loaded.check_available(setting)
    cache = _cache(settings, loaded, setting)
    predicted = loaded.predict(setting)
    outcome.from_cache = cache.load(MEASURED) is not None
    measured = cache.keep(MEASURED, lambda: loaded.measure(setting, Lab(cache.keep, advance)))
    found = Results(predicted, measured, setting)
    outcome.rows = claims.rows(loaded, found)
    outcome.table = loaded.table(found) if loaded.table else ""
    return found


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
    told = f"{len(rows)} claims, {holding} hold; figures: {counts}"
    incomplete = f"{len(failed)} of {len(outcomes)} figures failed ({', '.join(failed)})" if failed else ""
    shown = (told, Table("claims", [claims.shown(row) for row in rows]))
    return Result("Claims", {"claims": rows, "figures": figures}, shown, incomplete=incomplete)


def _forget_programs() -> None:
    """Free compiled programs: those of all experiments together would use up the system's memory maps."""
    import jax

    jax.clear_caches()
    gc.collect()
