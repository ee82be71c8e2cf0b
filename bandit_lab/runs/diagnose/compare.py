"""Two runs side by side: what became of each, what it was told, and in which settings they differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_lab.app.document import Block, Column, Figure, On, Table, Value
from bandit_lab.app.document.value import number
from bandit_lab.runs import trainers
from bandit_lab.runs.diagnose.work import DiagnosisRow
from bandit_lab.runs.logs.findings import paragraphs, verdict_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

ALT = "reward of both runs against step, running means as lines"
SAME = "In nothing that both logs, or files beside them, tell."
UNKNOWN = "not known"
ComparedRow = tuple[str, Any, Any]


@dataclass(frozen=True)
class RecordedSettings:
    """The settings of one run: `values` by the trainer's own key, and the three that matter most, None if unknown."""

    values: dict[str, Any]
    learning_rate: float | None
    refresh_interval: float | None
    group_size: int | None


def told(run: DiagnosisRow) -> RecordedSettings:
    """What the log of a run, a file beside it or the table of runs says of its settings; defaults are not among it."""
    log, curve = run.log, run.curve
    found = trainers.settings_of_log(curve.source, curve.settings)
    rate, interval, size = log.learning_rate, log.refresh_interval, log.group_size
    try:
        setup = trainers.understand(None, {}, logged=found, log_of=curve.framework) if found is not None else None
    except ValueError:  # keys that no trainer knows: they are compared all the same
        setup = None
    if setup is not None:
        known = {name: fact.value for name, fact in setup.facts.items() if not fact.assumed}
        rate, size = rate or known.get("learning_rate"), size or known.get("group_size")
        interval = interval if interval or setup.loop.assumed else setup.loop.interval
    if "lr" in curve.series and curve.series["lr"].value.size:
        rate = rate or float(curve.series["lr"].value.max())
    return RecordedSettings(dict(found.values) if found is not None else {}, rate, interval, size)


def compared(runs: Sequence[DiagnosisRow]) -> dict[str, list[Block]]:
    """Sections of two runs: the table of what matters and a picture of both, and the settings that differ."""
    settings = [told(run) for run in runs]
    names = _short([run.log.name for run in runs])
    picture = Figure(lambda: _drawn(runs, names), ALT, dpi=130)
    return {"compared": [_table(_rows(runs, settings), names), picture], "differences": _differences(settings, names)}


def _rows(runs: Sequence[DiagnosisRow], settings: Sequence[RecordedSettings]) -> list[ComparedRow]:
    def of_run(name: str, read: Callable[[DiagnosisRow], Any]) -> ComparedRow:
        first, second = (read(run) for run in runs)
        return name, first, second

    def of_settings(name: str, key: str) -> ComparedRow:
        first, second = (Value.of(getattr(one, key), UNKNOWN) for one in settings)
        return name, first, second

    return [
        of_run("what became of it", lambda run: verdict_text(run.found, short=False)),
        of_run("what to do next", lambda run: run.found.next),
        of_run("best reward", lambda run: float(_levels(run).max())),
        of_run("last reward", lambda run: float(_levels(run)[-1])),
        of_settings("learning rate", "learning_rate"),
        of_settings("K_ref", "refresh_interval"),
        of_settings("group size G", "group_size"),
    ]


def _levels(run: DiagnosisRow) -> np.ndarray:
    """Means over tenths of the run [10], or over single points of a short one."""
    return np.array([part.mean() for part in np.array_split(run.curve.reward, min(10, run.curve.reward.size))])


def _table(rows: Sequence[ComparedRow], names: Sequence[str]) -> Table[ComparedRow]:
    def cell(place: int) -> Column[ComparedRow]:
        return Column(f"run_{place}", names[place - 1], lambda row: row[place], text=lambda row: _text(row[place]),
                      left=True)  # fmt: skip

    return Table(rows, [Column("quantity", "", lambda row: row[0]), cell(1), cell(2)])


def _text(value: Any) -> str:
    if isinstance(value, Value):
        return UNKNOWN if value.value is None else f"{value.value:g}"
    return number(value, 3) if isinstance(value, float) else str(value)


def _differences(settings: Sequence[RecordedSettings], names: Sequence[str]) -> list[Block]:
    """Keys that both runs name with different values, and those that one alone names."""
    first, second = (one.values for one in settings)
    rows = [(key, first.get(key, "-"), second.get(key, "-")) for key in sorted({*first, *second})]
    differ: list[ComparedRow] = [row for row in rows if row[1] != row[2]]
    return [replace(_table(differ, names), on=On.JSON | On.PAGE), *([] if differ else paragraphs([SAME], On.PAGE))]


def _short(names: list[str]) -> list[str]:
    """Names without the words that both begin with; as they are where nothing would be left of one."""
    alike = [first == second for first, second in zip(*names, strict=False)]
    words = alike.index(False) if False in alike else len(alike)
    start = max((place + 1 for place in range(words) if names[0][place] in "./_- "), default=0)
    cut = [name[start:] for name in names]
    return [f"...{name}" for name in cut] if start and all(cut) else names


def _drawn(runs: Sequence[DiagnosisRow], names: Sequence[str]) -> "Drawn":
    from bandit_lab.runs.diagnose.plot import side_by_side

    return side_by_side([(name, run.curve, run.found) for name, run in zip(names, runs, strict=True)])
