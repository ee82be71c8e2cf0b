"""`status`: what of a run folder is done, failed and left. It only reads: a run that works there is not disturbed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_lab import _checks
from bandit_lab.study.chunks import DONE, FAILED, ChunkStore, Planned, Record, durable, holder
from bandit_lab.study.folder import written
from bandit_lab.study.folder.store import MANIFEST, strict_json
from bandit_lab.study.settings.folder import StatusSettings
from bandit_lab.study.terminal import report
from bandit_lab.study.terminal.multirun import Job, jobs_in
from bandit_lab.study.terminal.progress import Progress

REASONS_SHOWN = 10
_LOOKS = 5  # at most, until two looks in a row agree


@dataclass(frozen=True)
class StatusPlan:
    """A run folder that exists, or one of a `-m` with its runs, and where the JSON goes."""

    folder: Path
    jobs: list[Job]
    output: Path | None


def runs_in(run_dir: str | None) -> tuple[Path, list[Job]]:
    """(folder, runs of a `-m` in it). Raises ValueError unless there is a run in it, finished or not, or several."""
    _checks.require(bool(run_dir), "run_dir", "the folder of a run", run_dir)
    folder, jobs = Path(str(run_dir)), list[Job]()
    try:
        found = written.look(folder)
        known = (found.ours and not found.empty) or ChunkStore(folder).settings() is not None or found.damaged
        if not known:
            jobs = jobs_in(folder)
    except (OSError, ValueError):  # a path that cannot be: too long, a loop of links, a zero byte
        known = False
    _checks.require(known or bool(jobs), "run_dir", "the folder of a run", str(folder))
    return folder, jobs


def prepare(settings: StatusSettings, explicit: frozenset[str]) -> StatusPlan:
    """Check that there is a run to read."""
    return StatusPlan(*runs_in(settings.run_dir), Path(settings.output) if settings.output else None)


def execute(plan: StatusPlan, folder: Any, progress: Progress) -> None:
    """Print the status, and write it as JSON if that is wanted."""
    if plan.jobs:
        runs = {job.name: read(plan.folder / job.name) for job in plan.jobs}
        status: dict[str, Any] = {"runs": runs}
        show_runs(runs)
    else:
        status = read(plan.folder)
        show(status)
    if plan.output is not None:
        durable.write_file(plan.output, strict_json(status).encode())


def read(folder: Path) -> dict[str, Any]:
    """The status as plain values. Keys: state, running, stages, failed, damaged, seconds, seconds_left.

    state: `finished`, `finished, parts failed`, `finished, damaged`, `running`, `unfinished`. damaged: name -> what is
    wrong with what a finished run wrote, or with the files that say what a run is. stages: one row per kind of work
    with counts of chunks done, failed and left, seconds used and seconds left (null with a reason while nothing is
    known).
    """
    store = ChunkStore(folder)
    for _ in range(_LOOKS):  # while another process finishes, chunks go and the manifest comes
        found = written.look(folder)
        running, plan, records = holder(store.folder), store.plan(), store.records()
        if written.look(folder).manifest == found.manifest:
            break
    manifest = found.manifest
    stages = [_stage(kind, chunks, records) for kind, chunks in plan.items()]
    known = {planned.key for chunks in plan.values() for planned in chunks}
    failed = [r for key, r in records.items() if r.status == FAILED and key in known]
    left = [stage["seconds_left"] for stage in stages]
    wrong = written.damaged(folder, found.files) if manifest is not None and running is None else {}
    wrong |= {f"{store.folder.name}/{name}": "cannot be read" for name in store.damaged()}
    wrong |= {MANIFEST: "cannot be read"} if found.damaged else {}
    status: dict[str, Any] = {
        "state": _state(manifest, running, bool(failed), bool(wrong)),
        "running": running,
        "stages": stages,
        "damaged": wrong,
        "failed": [{"stage": r.kind, "chunk": r.what, "reason": r.reason} for r in failed],
        "seconds": sum(stage["seconds"] for stage in stages),
        "seconds_left": None if None in left or not left else sum(left),
    }
    if manifest is not None:
        status |= {"command": manifest.get("command"), "wall_seconds": manifest.get("wall_seconds")}
        status["chunks"] = manifest.get("chunks")
    if status["seconds_left"] is None:
        status["seconds_left_reason"] = "finished" if not stages and manifest else "no chunk of some stage is done yet"
    return status


def _state(manifest: dict[str, Any] | None, running: dict[str, Any] | None, failed: bool, damaged: bool) -> str:
    if running is not None:
        return "running"
    if manifest is None:
        return "unfinished"
    if damaged:
        return "finished, damaged"
    return "finished, parts failed" if failed else "finished"


def _stage(kind: str, chunks: list[Planned], records: dict[str, Record]) -> dict[str, Any]:
    """One row: counts, seconds used, and what the rest will take at the pace so far."""
    found = {planned.key: records.get(planned.key) for planned in chunks}
    done = [record for record in found.values() if record is not None and record.status == DONE]
    failed = sum(record is not None and record.status == FAILED for record in found.values())
    rest = sum(planned.work for planned in chunks) - sum(record.work for record in done)
    seconds, work = sum(record.seconds for record in done), sum(record.work for record in done)
    left = len(chunks) - len(done) - failed
    row: dict[str, Any] = {"stage": kind, "chunks": len(chunks), "done": len(done), "failed": failed, "left": left}
    row |= {"seconds": seconds, "seconds_left": seconds * rest / work if work else (None if left + failed else 0.0)}
    if row["seconds_left"] is None:
        row["seconds_left_reason"] = "no chunk of this stage is done yet"
    return row


def show_runs(runs: dict[str, dict[str, Any]]) -> None:
    """A row per run of a `-m`, and why chunks failed."""
    table = report.new_table(f"{len(runs)} runs", "run", "state", "done", "failed", "left", "seconds left")
    for name, status in runs.items():
        counts = {kind: sum(stage[kind] for stage in status["stages"]) for kind in ("done", "failed", "left")}
        if not status["stages"] and (chunks := status.get("chunks")):  # finished: they are gone
            counts |= {"done": chunks["total"] - len(chunks["failed"]), "failed": len(chunks["failed"])}
        table.add_row(name, status["state"], *map(str, counts.values()), report.number(status["seconds_left"], 3))
    report.show(table)
    _show_failed([{**entry, "stage": f"{name}: {entry['stage']}"} for name in runs for entry in runs[name]["failed"]])


def show(status: dict[str, Any]) -> None:
    """The table and what failed."""
    who = status["running"]
    by = f", by process {who['pid']} on {who['host']} since {who['since']}" if who else ""
    report.show(f"{status['state']}{by}")
    if status["stages"]:
        table = report.new_table("chunks", "stage", "done", "failed", "left", "seconds used", "seconds left")
        for row in status["stages"]:
            counts = (str(row[name]) for name in ("done", "failed", "left"))
            used, rest = (report.number(row[name], 3) for name in ("seconds", "seconds_left"))
            table.add_row(row["stage"], *counts, used, rest)
        report.show(table)
    elif status.get("wall_seconds") is not None:
        report.show(f"{status['command']}, {status['wall_seconds']:g} seconds in its last process")
    if status["damaged"]:
        report.show(f"damaged: {written.in_words(status['damaged'])}")
    _show_failed(status["failed"])


def _show_failed(failed: list[dict[str, Any]]) -> None:
    for entry in failed[:REASONS_SHOWN]:
        report.show(f"failed: {entry['stage']}: {entry['chunk']}: {entry['reason']}")
    if len(failed) > REASONS_SHOWN:
        report.show(f"... and {len(failed) - REASONS_SHOWN} more")
