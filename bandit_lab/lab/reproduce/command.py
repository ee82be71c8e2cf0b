"""`reproduce`: predict, measure, compare, draw; one experiment after the other, each kept as soon as it is measured."""

import contextlib
import gc
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab._names import did_you_mean
from bandit_lab.app import engine
from bandit_lab.app.document import Column, Document, On, Paragraph, Table
from bandit_lab.app.folder.manifest import CompileClock, manifest
from bandit_lab.app.folder.store import RunFolder, check_manifest, manifest_of
from bandit_lab.app.settings.config import ReproduceSettings
from bandit_lab.app.terminal import report
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
    Unavailable,
    discover,
    read_setting,
)
from bandit_lab.lab.reproduce.publish import DONE, FAILED, FORMATS, SKIPPED, Reproduced


@dataclass(frozen=True)
class ReproducePlan:
    """Checked settings and the experiments to run."""

    settings: ReproduceSettings
    experiments: tuple[Experiment, ...]


def prepare(settings: ReproduceSettings, explicit: frozenset[str]) -> ReproducePlan:
    """Check every setting. Raises ValueError."""
    known = discover()
    _checks.choice("quality", settings.quality, QUALITIES)
    for name in ("publish", "cache"):
        value = getattr(settings, name)
        if value is not None:
            _check_writable(name, Path(value))
    names = chosen(
        settings.figures, list(known) if settings.numbers is None else published(Path(settings.numbers), known)
    )
    _check_formats(settings.formats)
    engine.chosen(settings)
    kept = settings.cache is not None or _is_local(settings)
    _checks.require(kept, "cache", "a folder for what the engine's workers measure", None)
    if settings.publish is not None:
        publish.check(Path(settings.publish), names)
    return ReproducePlan(settings, tuple(known[one] for one in names))


def _is_local(settings: ReproduceSettings) -> bool:
    return bool(settings.engine["name"] == "local")


def chosen(figures: Any, known: list[str]) -> list[str]:
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


def published(folder: Path, known: Iterable[str]) -> list[str]:
    """The figures whose numbers are published in a folder. Raises ValueError where there are none."""
    there = publish.read(folder)["figures"]
    names = [one for one in known if one in there and (folder / f"{one}.csv").is_file()]
    _checks.require(bool(names), "numbers", "a folder to which reproduce has published", str(folder))
    return names


def _check_writable(name: str, path: Path) -> None:
    """Raise ValueError unless `path` is a folder that can be written, or can become one."""
    nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
    _checks.require(nearest.is_dir(), name, "a folder", str(path))
    try:  # rights alone do not tell: nobody can write to /proc or to a disk mounted for reading
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        why = f"{str(path)!r} ({error.strerror})"
        raise ValueError(f"{name}: expected a folder that can be written, got {why}") from None


def check_folder(plan: ReproducePlan, folder: Path) -> None:
    """Raise ValueError if the folder holds a finished run. Only reads."""
    if not plan.settings.overwrite:
        check_manifest(folder)
        got = f"a finished run in {folder}"
        _checks.require(manifest_of(folder) is None, "run_dir", "a new folder, or overwrite=true", got)


def execute(plan: ReproducePlan, folder: RunFolder, progress: Progress) -> Document:
    """Run the experiments, write the run folder, publish, print the claims.

    Raises Incomplete where an experiment failed; everything else is written then, but no manifest.
    """
    start, settings = time.perf_counter(), plan.settings
    with stopped_by_disk(folder.path):
        folder.open(report.as_yaml(asdict(settings)))
    outcomes = []
    with CompileClock() as clock:
        failed = {} if _is_local(settings) or settings.numbers else _measured_elsewhere(plan, progress)
        for place, experiment in enumerate(plan.experiments, start=1):
            with progress.stage(f"{place}/{len(plan.experiments)} {experiment.id}") as advance:
                outcomes.append(_run_one(experiment, settings, advance, failed.get(experiment.id)))
            with stopped_by_disk(folder.path):
                publish.write_outcome(outcomes[-1], folder)
            _forget_programs()
            if outcomes[-1].reason:
                _tell(f"{experiment.id} {outcomes[-1].status}: {outcomes[-1].reason}")
    found = document_of(outcomes)
    with stopped_by_disk(folder.path), progress.stage("writing"):
        folder.write_summary(found.to_dict())
        publish.write_results(outcomes, folder.path)
        if settings.publish is not None:
            publish.publish(outcomes, Path(settings.publish), discover())
    if found.incomplete:
        found.show()
        raise Incomplete(found.incomplete, found)
    wall = time.perf_counter() - start
    seconds = {"wall": wall, "compile": clock.seconds, "run": wall - clock.seconds}
    numbers = asdict(settings) | {"seed": None, "precision": "as each experiment states"}
    for name in ("publish", "cache", "engine"):
        del numbers[name]
    stages = {name: round(value, 3) for name, value in progress.seconds.items()}
    with stopped_by_disk(folder.path):
        about = {"stage_seconds": stages, "seed_reason": "every experiment has its own, in conf/experiment/"}
        folder.write_manifest(manifest("reproduce", numbers, {}, seconds) | about)
    found.show()
    return found


def _measured_elsewhere(plan: ReproducePlan, progress: Progress) -> dict[str, str]:
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
    except Unavailable as error:
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


FIGURES: tuple[Column[Reproduced], ...] = (
    Column("id", "figure", lambda one: one.id),
    Column("status", "status", lambda one: one.status),
    Column("reason", "why", lambda one: one.reason or None),
    Column("from_cache", "from cache", lambda one: one.from_cache),
    Column("seconds", "seconds", lambda one: round(one.seconds, 3), unit="s"),
)


def document_of(outcomes: Sequence[Reproduced]) -> Document:
    """The claims with their verdicts, and what became of every figure."""
    rows = [row for one in outcomes for row in one.rows]
    holding, failed = sum(row["holds"] for row in rows), [one.id for one in outcomes if one.status == FAILED]
    ends = {status: sum(one.status == status for one in outcomes) for status in (DONE, SKIPPED, FAILED)}
    counts = ", ".join(f"{count} {name}" for name, count in ends.items())
    return Document(
        "Claims",
        {
            "": [
                Table(rows, claims.SHOWN, title="claims", on=On.SHOWN),
                Paragraph(f"{len(rows)} claims, {holding} hold; figures: {counts}"),
            ],
            "claims": [Table(rows, claims.columns(rows), on=On.JSON)],
            "figures": [Table(outcomes, FIGURES, on=On.JSON)],
        },
        incomplete=f"{len(failed)} of {len(outcomes)} figures failed ({', '.join(failed)})" if failed else "",
    )


def _forget_programs() -> None:
    """Free compiled programs: those of all experiments together would use up the system's memory maps."""
    import jax

    jax.clear_caches()
    gc.collect()


def _tell(text: str) -> None:
    tell(f"bandit_lab reproduce: {text}")
