"""TRL's console: a python dictionary per log event, numbers (transformers 4) or strings (transformers 5).

The dictionary is taken apart with a regular expression, never evaluated. It does not hold the step: see `steps`.
"""

import re

from bandit_lab.curves import aliases, limits, steps
from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.readers.dialect import holds_reward, is_row
from bandit_lab.curves.readers.line_rows import LineRows

_PAIR = re.compile(
    r"""(['"])([^'"\n]{1,200})\1\s{0,4}:\s{0,4}('[^'\n]{0,80}'|"[^"\n]{0,80}"|[\w.+\-]{1,40}(?:\([^()\n]{0,80}\))?)"""
)
_BAR = re.compile(r"\|\s{0,8}(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,60}(?:it/s|s/it)")
_TOTAL = re.compile(r"Total optimization steps\s{0,4}=\s{0,4}([\d,]{1,15})")
_START = re.compile(r"\{\s?['\"][\w/]")


class TrlConsole(LineRows):
    """Dictionary lines, with the progress bars as the only witness of the step."""

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._clues = steps.Clues()
        self._strings = False

    def feed(self, line: str) -> None:
        """Look for progress bars and dictionaries in one line."""
        if "/" in line and " [" in line:
            for bar in _BAR.finditer(line):
                self._clues.bar(int(bar[1]), int(bar[2]))
        total = _TOTAL.search(line)
        if total:
            self._clues.total(int(total[1].replace(",", "") or 0))
        start = _START.search(line)
        if start is None:
            return
        end = line.find("}", start.start())
        if end < 0:
            if "reward" in line and ("'loss'" in line or '"loss"' in line):
                self._clues.damaged += 1
            return
        self._row(line[start.start() : end])

    def _row(self, text: str) -> None:
        pairs = {m[2]: m[3] for m in _PAIR.finditer(text[: limits.MAX_KEY * 200])}
        if len(pairs) < 2 or not is_row(pairs, self._options):
            return
        row: dict[str, object] = {key: value.strip("'\"") for key, value in pairs.items()}
        if "step" not in row:
            row["__row"] = self._table.rows
        summary = "train_runtime" in row
        if holds_reward(row, self._options):
            self._rewards += 1
            self._strings |= any(aliases.canonical(k) == "reward" and v[:1] in "'\"" for k, v in pairs.items())
        elif summary or any(key.startswith("eval_") for key in row):
            row["__aside"] = 1
        row["__summary"] = int(summary)
        self._table.add(row)

    def parsed(self) -> Parsed:
        """The rows with their steps, as exact as the log allows."""
        table, notes = steps.complete(self._table, self._clues, self._options.log_every)
        kind = "TRL console" + (", values as strings (transformers 5)" if self._strings else "")
        if self._clues.damaged:
            notes = (f"{self._clues.damaged} damaged row(s) left out", *notes)
        framework = aliases.TRL if {"reward", "loss"} <= set(table.keys) else ""
        return Parsed(kind, {"": table}, notes, framework)
