"""What a probe saw of a run: a page in the run's folder, written anew at every measurement.

A run that is killed leaves the page of its last measurement. Each file is whole or absent.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from grpo_clinic import page
from grpo_clinic.report import plain

from grpo_probe.probe_margin import Margin

PAGE, NUMBERS = "stability.html", "stability.json"
"""The files in the trainer's `output_dir`."""
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
    def of(cls, step: int, margin: Margin) -> Self:
        """The row of a margin."""
        k, along = margin.stiffness, margin.stiffness.critical
        rest = (k.fresh, k.stale, margin.loop.learning_rate, margin.verdict, math.nan if along is None else along)
        return cls(step, k.value, k.standard_error, math.nan if along is not None else margin.used, *rest)

    @classmethod
    def logged(cls, row: Mapping[str, Any]) -> Self:
        """The same of a row of the trainer's log."""
        name = "stiffness" if "probe/stiffness" in row else "stiffness_along"
        used, sharpness = (row.get(f"probe/{key}", math.nan) for key in ("stability_used", "sharpness"))
        return cls(row["step"], row[f"probe/{name}"], row[f"probe/{name}_std"], used, sharpness=sharpness)


@dataclass
class ProbeReport:
    """All measurements of a run, and their report. lines: the printed lines. settings: of the run."""

    settings: Mapping[str, Any]
    measured: list[Measured] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    last: Margin | None = None

    def add(self, step: int, margin: Margin) -> None:
        """One measurement more."""
        self.measured.append(Measured.of(step, margin))
        self.last = margin

    def resume(self, log: Sequence[Mapping[str, Any]]) -> None:
        """Begin anew with the measurements of a trainer's log, as that of a checkpoint."""
        keys = ("probe/stiffness", "probe/stiffness_along")
        self.measured = [Measured.logged(row) for row in log if any(key in row for key in keys)]

    def write(self, folder: Path, state: str) -> None:
        """The page and its numbers. state: whether training has ended. Raises OSError where they cannot be written."""
        steps, values = (np.array([row[at] for row in self.measured], float) for at in (0, 1))
        title = f"Stability of {folder.resolve().name}"
        document = page.page(title, [("Stiffness K", steps, values, None, self.text(state))])
        page.write(folder / PAGE, document)
        page.write(folder / NUMBERS, json.dumps(self.numbers(state), indent=1, default=str) + "\n")

    def numbers(self, state: str) -> dict[str, Any]:
        """The page's numbers; unknown ones are null."""
        numbers: dict[str, Any] = plain(
            {
                "verdict": self.last.verdict if self.last else "not measured",
                "next": self._next,
                "state": state,
                "measurements": [row._asdict() for row in self.measured],
                "said": self.lines[-_LAST:],
                "settings": self.settings,
            }
        )
        return numbers

    def text(self, state: str) -> str:
        """Verdict, what to do; then every measurement and the settings."""
        head = "step, K, error, share of the threshold, critical sharpness, verdict"
        lines = [self._first, f"What to do next: {self._next}", "", head]
        lines += [
            f"{row.step}, {row.stiffness:.4g}, {row.error:.2g}, {row.used:.2g}, {row.sharpness:.3g}, {row.verdict}"
            for row in self.measured
        ]
        lines += ["", *self.lines[-_LAST:], *(f"{name}: {value}" for name, value in self.settings.items()), state]
        return "\n".join(lines)

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
