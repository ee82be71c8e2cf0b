"""What a probe saw of a run: a page in the run's folder, written anew at every measurement.

A run that is killed leaves the page of its last measurement. Each file is whole or absent (`app.chunks.durable`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from bandit_lab._version import __version__
from bandit_lab.app.chunks import durable
from bandit_lab.app.document import Block, Column, Document, Figure, On, Paragraph, Table, Value, Values
from bandit_lab.app.document.as_json import strict_json
from bandit_lab.app.document.as_page import as_html
from bandit_lab.integrations.probe_margin import SURE, Margin

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

PAGE, NUMBERS = "stability.html", "stability.json"
"""The files in the trainer's `output_dir`."""
ALT = "stiffness against step with two standard errors, and the stiffness at which the learning rate is too large"
_LAST = 5
"""Lines that are shown of what was not measured."""
_FIRST = {
    "stable": "Stable at the last measurement: {share} of the threshold is used.",
    "unstable": "Unstable at the last measurement: {share} of the threshold is used.",
    "cannot tell": "Cannot tell whether it is stable: K is too close to the threshold for its error.",
    "no signal": "No signal: no group of the last measurement had a gradient, for all its rewards were equal.",
}


class Measured(NamedTuple):
    """One measurement. NaN: not known, as of what was measured before a run was resumed, of which the log is left.

    used: share of the threshold; NaN along the update, where another direction may be stiffer.
    """

    step: int
    stiffness: float
    error: float
    used: float
    fresh: float = math.nan
    stale: float = math.nan
    learning_rate: float = math.nan
    verdict: str = ""
    sharpness: float = math.nan

    @classmethod
    def of(cls, step: int, found: Margin) -> Self:
        """What is shown of a margin."""
        k, along = found.stiffness, found.stiffness.critical
        rest = (k.fresh, k.stale, found.loop.learning_rate, found.verdict, math.nan if along is None else along)
        return cls(step, k.value, k.standard_error, math.nan if along is not None else found.used, *rest)

    @classmethod
    def logged(cls, row: Mapping[str, Any]) -> Self:
        """The same of a row of the trainer's log."""
        name = "stiffness" if "probe/stiffness" in row else "stiffness_along"
        used, sharpness = (row.get(f"probe/{key}", math.nan) for key in ("stability_used", "sharpness"))
        return cls(row["step"], row[f"probe/{name}"], row[f"probe/{name}_std"], used, sharpness=sharpness)

    @property
    def edge(self) -> float:
        """K at which this learning rate is the threshold; NaN where none is."""
        return self.stiffness / self.used if self.used > 0 else math.nan


@dataclass
class ProbeReport:
    """All measurements of a run, and what is told of them. lines: what was said besides. settings: of the run."""

    settings: Mapping[str, Any]
    measured: list[Measured] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    last: Margin | None = None

    def add(self, step: int, found: Margin) -> None:
        """One measurement more."""
        self.measured.append(Measured.of(step, found))
        self.last = found

    def resume(self, log: Sequence[Mapping[str, Any]]) -> None:
        """Begin anew with the measurements of a trainer's log, as that of a checkpoint."""
        keys = ("probe/stiffness", "probe/stiffness_along")
        self.measured = [Measured.logged(row) for row in log if any(key in row for key in keys)]

    def write(self, folder: Path, state: str) -> None:
        """The page and its numbers. state: whether training has ended. Raises OSError where they cannot be written."""
        told = self.document(folder.resolve().name, state)
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_file(folder / PAGE, as_html(told).encode())
        durable.write_file(folder / NUMBERS, strict_json(told.to_dict()).encode())

    def document(self, name: str, state: str) -> Document:
        """Verdict, what to do, picture, three numbers; the rest folded."""
        blocks: list[Block] = [Paragraph(self._first, lead=True), Paragraph(f"What to do next: {self._next}")]
        if self.measured:
            blocks += [Figure(partial(draw, self.measured), ALT, dpi=130), self._three_numbers()]
        about = {"verdict": self.last.verdict if self.last else "not measured", "next": self._next, "state": state}
        sections: dict[str, Sequence[Block]] = {
            "": [*blocks, Values(about, on=On.JSON)],
            "measurements": [self._table()],
            "said besides": [Paragraph(line) for line in self.lines[-_LAST:]],
            "settings": [Values(self.settings, titles=dict(zip(self.settings, self.settings, strict=True)))],
            "how this was written": [Paragraph(state), Paragraph(f"bandit_lab {__version__}")],
        }
        return Document(f"Stability of {name}", sections, folded=[*sections][1:])

    @property
    def _first(self) -> str:
        if self.last is None:
            return "Not measured." if not self.measured else "Not measured since the run was taken up again."
        k = self.last.stiffness
        if self.last.verdict != "no signal" and k.value <= 0:
            return "Stable at the last measurement: no restoring direction leads, so that no threshold is near."
        if self.last.verdict == "stable" and k.critical is not None:
            return "Stable along the update at the last measurement; another direction may be stiffer."
        return _FIRST[self.last.verdict].format(share=f"{self.last.used:.0%}")

    @property
    def _next(self) -> str:
        if self.last is None:
            return "measure earlier or more often (every), or see below what failed."
        if self.last.verdict == "no signal":
            return "look at the rewards: where they are equal in every group, nothing is learned."
        return f"{self.last.advice}{self.last.more}."

    def _three_numbers(self) -> Table[tuple[str, str, str]]:
        last = self.measured[-1]
        known = [one for one in self.measured if one.used == one.used]
        rows = [("stiffness K at the end", f"{last.stiffness:.4g}", f"its error is {last.error:.2g}, step {last.step}")]
        if last.sharpness == last.sharpness:
            rows.append(("critical sharpness at the end", f"{last.sharpness:.3g}", "read it as a course over the run"))
        if known:
            most = max(known, key=lambda one: one.used)
            rows += [
                ("share of the threshold at the end", f"{known[-1].used:.0%}", "1 is the edge"),
                ("at most", f"{most.used:.0%}", f"step {most.step}"),
            ]
        columns = [
            Column[tuple[str, str, str]](key, title, lambda row, at=at: row[at], left=True)  # type: ignore[misc]
            for at, (key, title) in enumerate((("name", "what"), ("value", "number"), ("beside", "beside it")))
        ]
        return Table(rows, columns, on=On.PAGE)

    def _table(self) -> Table[Measured]:
        def number(key: str, title: str) -> Column[Measured]:
            return Column(key, title, lambda row: Value.of(getattr(row, key), "not known, or none"), digits=3)

        columns: list[Column[Measured]] = [
            Column("step", "step", lambda row: row.step),
            number("stiffness", "K"),
            number("error", "error"),
            number("fresh", "fresh"),
            number("stale", "stale"),
            number("sharpness", "critical sharpness"),
            number("learning_rate", "learning rate"),
            number("used", "share of the threshold"),
            Column("verdict", "verdict", lambda row: row.verdict),
        ]
        return Table(self.measured, columns)


def draw(rows: Sequence[Measured]) -> "Drawn":
    """K against step, and the K that this learning rate allows where there is one."""
    import matplotlib.pyplot as plt
    import numpy as np

    from bandit_lab.app.plots import style as s

    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    step, stiffness, error, edge = (
        np.array([getattr(row, key) for row in rows], float) for key in ("step", "stiffness", "error", "edge")
    )
    axes.errorbar(step, stiffness, yerr=SURE * np.where(np.isfinite(error), error, 0), fmt="o-", color=s.BLUE,
                  markersize=3, linewidth=1.2, capsize=2, label="K, with two standard errors")  # fmt: skip
    if np.isfinite(edge).any():
        axes.plot(step, edge, "_", color=s.VERMILION, markersize=12, label="K at which this learning rate is too large")
    sharpness = np.array([row.sharpness for row in rows])
    if np.isfinite(sharpness).any():
        axes.plot(step, sharpness, "^", color=s.GREEN, markersize=4, label="critical sharpness")
    axes.set(xlabel="step", ylabel="K (loss per squared parameter)")
    axes.legend(fontsize=8, frameon=False)
    return figure
