"""The one door to all readers: recognise, read, normalise; every failure is one ValueError line that names the file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from grpo_clinic._text import visible
from grpo_clinic.readers import folder, normalise
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import Curve
from grpo_clinic.readers.registry import parse
from grpo_clinic.readers.restarts import runs_of
from grpo_clinic.readers.table import Parsed

STRICT = False
"""Whether errors of our own code are raised as they are, as in tests."""
_FAULTS = (KeyError, IndexError, TypeError, AttributeError)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Skipped:
    """A file that gave no curve, and the reason in one line."""

    path: str
    reason: str


def read(path: str | Path, **options: Any) -> list[Curve]:
    """Every run with a reward in a log file or folder, at least one; `read_all` says what of a folder was skipped.

    path      file, checkpoint or output folder, wandb run folder, or a folder of logs
    options   those of `ReadOptions`

    Raises ValueError, one line that names the file, for anything that cannot be read, whatever the reason. Nothing is
    unpickled or evaluated; sizes are bounded as `limits` says.

    Example:
      >>> _ = Path("run.csv").write_text("step,reward" + chr(10) + "0,0.1" + chr(10) + "1,0.3")
      >>> read("run.csv")[0].reward.tolist()
      [0.1, 0.3]
    """
    curves, skipped = read_all([path], ReadOptions(**options))
    if not curves:
        raise ValueError(skipped[0].reason)
    return curves


def read_all(paths: Iterable[str | Path], options: ReadOptions | None = None) -> tuple[list[Curve], list[Skipped]]:
    """(curves, skipped) of several files and folders: one that cannot be read does not stop the others.

    What of a folder was not looked at (too many files, no right to read) is among `skipped` under the folder's path.
    """
    curves: list[Curve] = []
    skipped: list[Skipped] = []
    for place in map(Path, paths):
        try:
            files, left_out = _guarded(place, partial(folder.logs, place))
        except ValueError as error:
            skipped.append(Skipped(str(place), str(error)))
            continue
        for file in files:
            try:
                curves += _curves(file, options or ReadOptions())
            except ValueError as error:
                skipped.append(Skipped(str(file), str(error)))
        skipped += [Skipped(str(one), f"{_shown(one)}: {reason}") for one, reason in left_out]
    return curves, skipped


def _curves(path: Path, options: ReadOptions) -> list[Curve]:
    """The runs of one file, with what lies beside it."""
    alone = options if options.eval_path is None else replace(options, eval_key=None)
    curves = _guarded(path, lambda: _curves_of(path, parse(path, alone), alone))
    for other in options.beside:
        curves = [_joined("beside", one, Path(other), alone) for one in curves]
    if options.eval_path is not None:
        if len(curves) != 1:
            raise ValueError(f"{_shown(path)}: eval_path: expected one run that it belongs to, got {len(curves)}")
        curves = [_joined("eval_path", curves[0], Path(options.eval_path), options)]
    return curves


def _shown(path: Path) -> str:
    text = visible(str(path))
    return text if len(text) < 300 else f"{text[:300]}..."


def _guarded(path: Path, action: Callable[[], _T]) -> _T:
    """`action()`, with every failure one line that names the file: readers stand on libraries with errors of their own.

    Errors of our own code are told as such.
    """
    try:
        return action()
    except ValueError as error:
        reason = str(error)
    except RecursionError:
        reason = "expected a log that can be read, got one nested too deeply"
    except MemoryError:
        reason = "expected a log that can be read, got one that takes more memory than there is"
    except _FAULTS as error:
        if STRICT:
            raise
        reason = f"the reader failed, a fault of this program: {type(error).__name__} {error}"
    except OSError as error:
        reason = f"expected a log that can be read, got {error.strerror}"
    except Exception as error:
        reason = f"expected a log that can be read, got {type(error).__name__}: {str(error)[:80]}"
    raise ValueError(f"{_shown(path)}: {visible(' '.join(reason.split()))[:500]}")


def _curves_of(path: Path, parsed: Parsed, options: ReadOptions) -> list[Curve]:
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


def _joined(key: str, curve: Curve, path: Path, options: ReadOptions) -> Curve:
    """The curve with what another file of the same run adds: the table of its name, else the first.

    Raises ValueError that names `key`, the option in which the file was given.
    """

    def action() -> Curve:
        parsed = parse(path, replace(options, where=None, run=None))
        if not parsed.tables:
            raise ValueError(f"expected rows with numbers ({parsed.format}), got none")
        table = parsed.tables.get(curve.name) or next(iter(parsed.tables.values()))
        return normalise.joined(curve, table, path.name, options, results=key == "eval_path")

    try:
        return _guarded(path, action)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
