"""The one door to all readers: recognise, read, normalise; every failure is one ValueError line that names the file."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bandit_lab._text import visible
from bandit_lab.curves import limits, normalise, source
from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions, parse_where
from bandit_lab.curves.readers import (
    console,
    csv_table,
    folder,
    json_document,
    json_lines,
    mlflow_run,
    notebook,
    packed,
    parquet,
    rollout_folder,
    tensorboard_events,
    wandb_file,
)
from bandit_lab.curves.record import Curve
from bandit_lab.curves.table import LogTable

T = TypeVar("T")
Reader = Callable[[Path, ReadOptions], Parsed]


@dataclass(frozen=True)
class Skipped:
    """A file that gave no curve, and the reason in one line."""

    path: str
    reason: str


def read(
    path: str | Path,
    reward_key: str | None = None,
    step_key: str | None = None,
    where: str | Mapping[str, object] | None = None,
    run: str | None = None,
    eval_key: str | None = None,
    *,
    scale: tuple[float, float] | None = None,
    step_unit: str | None = None,
    log_every: int | None = None,
    thin: bool = True,
    beside: Iterable[str | Path] = (),
    eval_path: str | Path | None = None,
) -> list[Curve]:
    """Every run with a reward in a log file or folder, at least one.

    path         file (gzip too), checkpoint or output folder, wandb or MLflow run folder, verl's rollouts, or a folder
                 of logs
    reward_key   column to read as the reward; by default the known names of the trainer that wrote the log
    step_key     column to read as the step
    where        rows that count for the reward: a mapping, or text such as "type=rollout"
    run          one run of several: its name, or a part of it that no other has
    eval_key     column to read as the held-out result
    scale        (lowest, highest) reward possible; estimated from the log by default
    step_unit    "optimiser step" or "rollout cycle", where the log does not tell
    log_every    optimiser steps per logged row, where the log does not tell
    thin         take the copies out of forward-filled columns
    beside       further files of the same run: columns that the log lacks are taken from them
    eval_path    a file with the held-out results of the same run, joined by step; eval_key then is a column of it

    Raises ValueError, one line that names the file, for anything that cannot be read. Nothing is unpickled or
    evaluated; sizes are bounded as `limits` says.
    """
    asked = ReadOptions(reward_key, step_key, eval_key, parse_where(where), run, scale, step_unit, log_every, thin)
    options = asked if eval_path is None else replace(asked, eval_key=None)
    place = Path(path)
    found = _guarded(place, lambda: _files(place))
    files = found.files
    if len(files) == 1:
        curves = _guarded(files[0], lambda: _read_file(files[0], options))
    else:
        curves, skipped = _read_many(files, options)
        if not curves:
            raise ValueError(
                f"{_shown(place)}: expected a folder with reward logs, got {len(skipped)} files without; "
                f"{visible(Path(skipped[0].path).name)}: {visible(skipped[0].reason)}"
            )
        curves = _guarded(place, lambda: _pick(curves, options.run))
    if found.left_out:
        notes = tuple(f"{_shown(path)}: {reason}" for path, reason in found.left_out)
        curves = [replace(one, notes=(*one.notes, *notes)) for one in curves]
    for other in beside:
        curves = [_joined("beside", one, Path(other), options, normalise.joined) for one in curves]
    if eval_path is not None:
        if len(curves) != 1:
            raise ValueError(f"{_shown(place)}: eval_path: expected one run that it belongs to, got {len(curves)}")
        curves = [_joined("eval_path", curves[0], Path(eval_path), asked, normalise.with_held_out)]
    return curves


def read_all(paths: Iterable[str | Path], **options: object) -> tuple[list[Curve], list[Skipped]]:
    """(curves, skipped) of several files and folders: one that cannot be read does not stop the others.

    What of a folder was not looked at (too many files, no right to read) is among `skipped` under the folder's path.

    Raises ValueError for options that are wrong in themselves.
    """
    curves: list[Curve] = []
    skipped: list[Skipped] = []
    for path in paths:
        place = Path(path)
        try:
            found = _guarded(place, lambda place=place: _files(place))  # type: ignore[misc]
        except ValueError as error:
            skipped.append(Skipped(str(path), str(error)))
            continue
        for file in found.files:
            try:
                curves += read(file, **options)  # type: ignore[arg-type]
            except ValueError as error:
                skipped.append(Skipped(str(file), str(error)))
        skipped += [Skipped(str(one), f"{_shown(one)}: {reason}") for one, reason in found.left_out]
    return curves, skipped


def _files(path: Path) -> folder.FolderFiles:
    """The files that a path means. Raises ValueError for a folder without any."""
    return folder.logs(path) if os.path.isdir(path) else folder.FolderFiles([path])


def _shown(path: Path) -> str:
    text = visible(str(path))
    return text if len(text) < 300 else f"{text[:300]}..."


def _guarded(path: Path, action: Callable[[], T]) -> T:
    """`action()`, with every ValueError turned into one line that names the file."""
    try:
        return action()
    except ValueError as error:
        reason = visible(" ".join(str(error).split()))[:500]
        raise ValueError(f"{_shown(path)}: {reason}") from None


def _read_many(files: list[Path], options: ReadOptions) -> tuple[list[Curve], list[Skipped]]:
    curves: list[Curve] = []
    skipped: list[Skipped] = []
    for file in files:
        try:
            curves += _read_file(file, replace(options, run=None))
        except ValueError as error:
            skipped.append(Skipped(str(file), str(error)))
    return curves, skipped


def _read_file(path: Path, options: ReadOptions) -> list[Curve]:
    parsed = _parse(path, options)
    if not parsed.tables:
        raise ValueError(f"expected rows with numbers ({parsed.format}), got none")
    names = {run: run or _stem(path) for run in parsed.tables}
    if options.run is not None:
        chosen = _choose(options.run, list(names.values()))
        names = {run: name for run, name in names.items() if name == chosen}
    curves, reasons = [], []
    for run, name in names.items():
        try:
            curves.append(normalise.curve(name, str(path), parsed, parsed.tables[run], options))
        except ValueError as error:
            reasons.append(str(error))
    if not curves:
        raise ValueError(reasons[0])
    return curves


def _stem(path: Path) -> str:
    name = path.parent.name if path.name in ("trainer_state.json", "metrics.jsonl", "output.log") else path.stem
    return visible(name or path.stem)


def _choose(wanted: str, names: list[str]) -> str:
    if wanted in names:
        return wanted
    close = [name for name in names if wanted in name]
    if len(close) == 1:
        return close[0]
    listed = ", ".join((close or names)[:10])
    raise ValueError(
        f"run: expected the name of one run, got '{wanted}'; {'it fits' if close else 'there are'} {listed}"
    )


def _pick(curves: list[Curve], run: str | None) -> list[Curve]:
    if run is None:
        return curves
    chosen = _choose(run, [one.name for one in curves])
    return [one for one in curves if one.name == chosen]


def _parse(path: Path, options: ReadOptions) -> Parsed:
    """Recognise the format and read it; the formats that the first bytes allow are tried in turn."""
    if os.path.isdir(path):
        return mlflow_run.read(path, options) if mlflow_run.is_run(path) else rollout_folder.read(path, options)
    source.check(path)
    start = source.head(path)
    if start.startswith(packed.MAGIC):
        return packed.read(path, lambda inside: _parse(inside, options))
    if start.startswith(parquet.MAGIC):
        return parquet.read(path, options)
    if start.startswith(wandb_file.MAGIC):
        return wandb_file.read(path, options)
    if path.suffix.lower() == ".ipynb":
        return notebook.read(path, lambda lines: console.from_lines(lines, options))
    if "tfevents" in path.name or source.is_event_file(start):
        return tensorboard_events.read(path, options)
    source.refuse_binary(start)
    first_error: ValueError | None = None
    for reader in _readers(path, start):
        try:
            return reader(path, options)
        except limits.TooLarge:
            raise
        except ValueError as error:
            first_error = first_error or error
    raise first_error or ValueError("expected a log, got an unknown format")


def _readers(path: Path, start: bytes) -> list[Reader]:
    text = start.decode("utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", errors="replace")
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson") or json_lines.sniff(text):
        return [json_lines.read, console.read]
    if suffix in (".csv", ".tsv"):
        return [csv_table.read]
    if json_document.sniff(text):
        return [json_document.read] if suffix == ".json" else [json_document.read, console.read]
    return [csv_table.read, console.read] if csv_table.sniff(text) else [console.read]


def _joined(
    key: str, curve: Curve, path: Path, options: ReadOptions, join: Callable[[Curve, LogTable, str, ReadOptions], Curve]
) -> Curve:
    """The curve with what `join` takes from another file of the same run: the table of its name, else the first.

    Raises ValueError that names `key`, the option in which the file was given.
    """

    def action() -> Curve:
        parsed = _parse(path, replace(options, where={}, run=None))
        if not parsed.tables:
            raise ValueError(f"expected rows with numbers ({parsed.format}), got none")
        table = parsed.tables.get(curve.name) or next(iter(parsed.tables.values()))
        return join(curve, table, path.name, options)

    try:
        return _guarded(path, action)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
