"""`status`: what of a run folder is done, failed and left. It only reads: a run that works there is not disturbed."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_lab.app.chunks import DONE, FAILED, ChunkStore, Planned, Record, durable, holder
from bandit_lab.app.document import Block, Column, Document, On, Paragraph, Table, Value, Values
from bandit_lab.app.document.as_json import strict_json
from bandit_lab.app.folder import written
from bandit_lab.app.folder.outputs import output_file
from bandit_lab.app.folder.written import MANIFEST
from bandit_lab.app.settings.config import StatusSettings
from bandit_lab.app.terminal.multirun import MultirunJob, jobs_in
from bandit_lab.app.terminal.progress import Progress

REASONS_SHOWN = 10
_FOLDER = "the folder of a run, which is the last line that a command prints (its run_dir, or outputs/...)"
_STATUS = re.compile(r'\{\s+(?:"[^"\n]*": \{\s+)?"state": "(?:finished|running|unfinished)[^"\n]*",\s+"running": ')
_LOOKS = 5  # at most, until two looks in a row agree


@dataclass(frozen=True)
class StatusPlan:
    """A run folder that exists, or one of a `-m` with its runs, and where the JSON goes."""

    folder: Path
    jobs: list[MultirunJob]
    output: Path | None


def runs_in(named: str | None) -> tuple[Path, list[MultirunJob]]:
    """(folder, runs of a `-m` in it). Raises ValueError unless there is a run in it, finished or not, or several."""
    if not named:
        raise ValueError(f"folder: expected {_FOLDER}, got nothing")
    folder = Path(named)
    known, jobs = _look(folder)
    if not (known or jobs):
        kinds = {"in which no run was written": os.path.isdir, "a file": os.path.isfile}
        there = next((words for words, holds in kinds.items() if holds(named)), "nothing there")
        raise ValueError(f"folder: expected {_FOLDER}, got {str(folder)!r} ({there})")
    return folder, jobs


def holds_run(path: str) -> bool:
    """Whether a path is the folder of a run, or of several."""
    return any(_look(Path(path)))


def _look(folder: Path) -> tuple[bool, list[MultirunJob]]:
    """(whether it is a run's folder, the runs of a `-m` in it)."""
    try:
        found = written.inspect_folder(folder)
        if (found.ours and not found.empty) or ChunkStore(folder).settings() is not None or found.damaged:
            return True, []
        return False, jobs_in(folder)
    except (OSError, ValueError):  # a path that cannot be: too long, a loop of links, a zero byte
        return False, []


def prepare(settings: StatusSettings, explicit: frozenset[str]) -> StatusPlan:
    """Check that there is a run to read."""
    output = output_file("output", Path(settings.output), _is_status) if settings.output else None
    return StatusPlan(*runs_in(settings.folder), output)


def _is_status(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        return _STATUS.match(file.read(4096)) is not None


def compute(plan: StatusPlan, progress: Progress) -> Document:
    """The status of a run, or of all runs of a `-m`; as JSON too if that is wanted."""
    if plan.jobs:
        found = document_of_runs({job.name: read(plan.folder / job.name) for job in plan.jobs})
    else:
        found = document_of(read(plan.folder))
    if plan.output is not None:
        durable.write_file(plan.output, strict_json(found.to_dict()).encode())
    return found


@dataclass(frozen=True)
class Stage:
    """One kind of work: how many chunks are in which state, seconds used, and what the rest takes at that pace."""

    kind: str
    chunks: int
    done: int
    failed: int
    seconds: float
    seconds_left: Value

    @property
    def left(self) -> int:
        """Chunks that are neither done nor failed."""
        return self.chunks - self.done - self.failed


@dataclass(frozen=True)
class Status:
    """One run folder. state: `finished`, `finished, parts failed`, `finished, damaged`, `running`, `unfinished`.

    running: pid, host and since of the process that works there. damaged: name -> what is wrong with what a finished
    run wrote, or with the files that say what a run is. manifest: of a finished run.
    """

    state: str
    running: dict[str, Any] | None
    stages: list[Stage]
    damaged: dict[str, str]
    failed: list[Record]
    manifest: Mapping[str, Any] | None

    @property
    def seconds_left(self) -> Value:
        """Of all stages together."""
        left = [stage.seconds_left.value for stage in self.stages]
        known = [seconds for seconds in left if seconds is not None]
        reason = "finished" if not left and self.manifest else "no chunk of some stage is done yet"
        return Value.of(sum(known) if left and known == left else None, reason, "s")

    def count(self, name: str) -> int:
        """Chunks that are `done`, `failed` or `left`, in all stages."""
        if not self.stages and self.manifest and (chunks := self.manifest.get("chunks")):  # finished: they are gone
            failed = len(chunks["failed"])
            return {"done": chunks["total"] - failed, "failed": failed, "left": 0}[name]
        return sum(getattr(stage, name) for stage in self.stages)


def read(folder: Path) -> Status:
    """Look into a run folder until two looks in a row agree."""
    store = ChunkStore(folder)
    for _ in range(_LOOKS):  # while another process finishes, chunks go and the manifest comes
        found = written.inspect_folder(folder)
        running, plan, records = holder(store.folder), store.plan(), store.records()
        if written.inspect_folder(folder).manifest == found.manifest:
            break
    known = {planned.key for chunks in plan.values() for planned in chunks}
    failed = [record for key, record in records.items() if record.status == FAILED and key in known]
    finished = found.manifest is not None
    wrong = written.changed_files(folder, found.files) if finished and running is None else {}
    wrong |= {f"{store.folder.name}/{name}": "cannot be read" for name in store.damaged()}
    wrong |= {MANIFEST: "cannot be read"} if found.damaged else {}
    state = "finished, parts failed" if failed else "finished"
    if running is not None or not finished:
        state = "running" if running is not None else "unfinished"
    elif wrong:
        state = "finished, damaged"
    stages = [_stage(kind, chunks, records) for kind, chunks in plan.items()]
    return Status(state, running, stages, wrong, failed, found.manifest)


def _stage(kind: str, chunks: list[Planned], records: dict[str, Record]) -> Stage:
    found = [record for planned in chunks if (record := records.get(planned.key)) is not None]
    done = [record for record in found if record.status == DONE]
    seconds, work = sum(record.seconds for record in done), sum(record.work for record in done)
    rest = sum(planned.work for planned in chunks) - work
    pace = seconds / work if work else (None if len(chunks) > len(done) else 0.0)
    left = Value.of(None if pace is None else pace * rest, "no chunk of this stage is done yet", "s")
    return Stage(kind, len(chunks), len(done), sum(record.status == FAILED for record in found), seconds, left)


_STAGES = [
    Column[Stage]("stage", "stage", lambda stage: stage.kind),
    Column[Stage]("chunks", "chunks", lambda stage: stage.chunks, on=On.JSON),
    Column[Stage]("done", "done", lambda stage: stage.done),
    Column[Stage]("failed", "failed", lambda stage: stage.failed),
    Column[Stage]("left", "left", lambda stage: stage.left),
    Column[Stage]("seconds", "seconds used", lambda stage: stage.seconds, unit="s", digits=3),
    Column[Stage]("seconds_left", "seconds left", lambda stage: stage.seconds_left, digits=3),
]
_FAILED = [
    Column[Record]("stage", "stage", lambda record: record.kind),
    Column[Record]("chunk", "chunk", lambda record: record.what),
    Column[Record]("reason", "reason", lambda record: record.reason),
]
_Named = tuple[str, Status]
_RUNS = [
    Column[_Named]("run", "run", lambda run: run[0]),
    Column[_Named]("state", "state", lambda run: run[1].state),
    Column[_Named]("done", "done", lambda run: run[1].count("done")),
    Column[_Named]("failed", "failed", lambda run: run[1].count("failed")),
    Column[_Named]("left", "left", lambda run: run[1].count("left")),
    Column[_Named]("seconds_left", "seconds left", lambda run: run[1].seconds_left, digits=3),
]


def content(status: Status) -> dict[str, Any]:
    """The status of one run for JSON."""
    items: dict[str, Any] = {
        "state": status.state,
        "running": status.running,
        "stages": Table(status.stages, _STAGES),
        "damaged": status.damaged,
        "failed": Table(status.failed, _FAILED),
        "seconds": sum(stage.seconds for stage in status.stages),
        "seconds_left": status.seconds_left,
    }
    if status.manifest is None:
        return items
    return items | {key: status.manifest.get(key) for key in ("command", "wall_seconds", "chunks")}


def document_of(status: Status) -> Document:
    """One run: its state, a row per stage, and what failed."""
    who, manifest = status.running, status.manifest or {}
    by = f", by process {who['pid']} on {who['host']} since {who['since']}" if who else ""
    more = "; the same command with the same run_dir goes on" if status.state == "unfinished" and status.stages else ""
    shown: list[Block] = [Values(content(status), on=On.JSON), Paragraph(f"{status.state}{by}{more}")]
    if status.stages:
        shown.append(Table(status.stages, _STAGES, title="chunks", on=On.SHOWN))
    elif manifest.get("wall_seconds") is not None:
        shown.append(Paragraph(f"{manifest.get('command')}, {manifest['wall_seconds']:g} seconds in its last process"))
    if status.damaged:
        shown.append(Paragraph(f"damaged: {written.in_words(status.damaged)}"))
    return Document("status", {"": [*shown, *_reasons(status.failed)]})


def document_of_runs(runs: Mapping[str, Status]) -> Document:
    """A row per run of a `-m`, and why chunks failed."""
    failed = [(name, record) for name, status in runs.items() for record in status.failed]
    values = Values({name: content(status) for name, status in runs.items()}, on=On.JSON)
    table = Table(list(runs.items()), _RUNS, title=f"{len(runs)} runs", on=On.SHOWN)
    lines = _reasons([record for _, record in failed], [f"{name}: " for name, _ in failed])
    return Document("status", {"runs": [values, table, *lines]})


def _reasons(failed: list[Record], places: list[str] | None = None) -> list[Paragraph]:
    """A line per chunk that failed, for the first of them."""
    before = places or [""] * len(failed)
    lines = [f"failed: {b}{r.kind}: {r.what}: {r.reason}" for b, r in zip(before, failed, strict=True)]
    more = len(lines) - REASONS_SHOWN
    return [Paragraph(line) for line in lines[:REASONS_SHOWN] + ([f"... and {more} more"] if more > 0 else [])]
