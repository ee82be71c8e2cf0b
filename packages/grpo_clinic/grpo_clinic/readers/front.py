"""The one door to all readers: recognise, read, normalise; every failure is one ValueError line that names the file."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from grpo_clinic._text import visible
from grpo_clinic.readers import (
    folder,
    normalise,
    registry,
    source,
)
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions, parse_where
from grpo_clinic.readers.record import Curve
from grpo_clinic.readers.restarts import runs_of
from grpo_clinic.readers.table import LogTable

FAULTS = (KeyError, IndexError, TypeError, AttributeError)
STRICT = False
T = TypeVar("T")


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
    needs_reward: bool = True,
) -> list[Curve]:
    """Every run with a reward in a log file or folder, at least one.

    path         file, checkpoint or output folder, wandb run folder, or a folder of logs
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
    needs_reward false: a log without a reward is read, too, where it holds something else that a diagnosis is told from

    Raises ValueError, one line that names the file, for anything that cannot be read, whatever the reason. Nothing is
    unpickled or evaluated; sizes are bounded as `limits` says.
    """
    asked = ReadOptions(reward_key, step_key, eval_key, parse_where(where), run, scale, step_unit, log_every, thin,
                        needs_reward)  # fmt: skip
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
    """`action()`, with every failure turned into one line that names the file."""
    try:
        return _told(action)
    except ValueError as error:
        reason = visible(" ".join(str(error).split()))[:500]
        raise ValueError(f"{_shown(path)}: {reason}") from None


def _told(action: Callable[[], T]) -> T:
    """`action()`, with every failure a ValueError: readers stand on libraries with errors of their own.

    Errors of our own code are told as such, and raised as they are where `STRICT` is set, as in tests.
    """
    try:
        return action()
    except ValueError:
        raise
    except RecursionError:
        got = "one nested too deeply"
    except MemoryError:
        got = "one that takes more memory than there is"
    except FAULTS as error:
        if STRICT:
            raise
        raise ValueError(f"the reader failed, a fault of this program: {type(error).__name__} {error}") from error
    except Exception as error:
        got = getattr(error, "strerror", None) or f"{type(error).__name__}: {str(error)[:80]}"
    raise ValueError(f"expected a log that can be read, got {got}")


def _read_many(files: list[Path], options: ReadOptions) -> tuple[list[Curve], list[Skipped]]:
    curves: list[Curve] = []
    skipped: list[Skipped] = []
    for file in files:
        try:
            curves += _told(lambda file=file: _read_file(file, replace(options, run=None)))  # type: ignore[misc]
        except ValueError as error:
            skipped.append(Skipped(str(file), str(error)))
    return curves, skipped


def _read_file(path: Path, options: ReadOptions) -> list[Curve]:
    return curves_of(path, _parse(path, options), options)


def curves_of(path: Path, parsed: Parsed, options: ReadOptions) -> list[Curve]:
    """The runs that a reader found in a file, at least one. Raises ValueError where none has a reward."""
    if not parsed.tables:
        raise ValueError(f"expected rows with numbers ({parsed.format}), got none")
    names = {run: run or _stem(path) for run in parsed.tables}
    if options.run is not None:
        chosen = _choose(options.run, list(names.values()))
        names = {run: name for run, name in names.items() if name == chosen}
    curves, reasons = [], []
    for run, name in names.items():
        tables = runs_of(parsed.tables[run], options)
        for place, table in enumerate(tables, start=1):
            shown = name if len(tables) == 1 else f"{name} (run {place} of {len(tables)})"
            try:
                curve = normalise.curve(shown, str(path), parsed, table, options)
                curves.append(replace(curve, restarted=len(tables) > 1))
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
    """Have the first reader that owns the file read it."""
    if os.path.isdir(path):
        raise ValueError("expected a log, got a folder")
    source.check(path)
    return registry.owner(path, source.head(path))[1].read(path, options)


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
