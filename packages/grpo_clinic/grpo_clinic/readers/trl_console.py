"""TRL's console: a python dictionary per log event, numbers (transformers 4) or strings (transformers 5); slime's too.

The dictionary is taken apart with a regular expression, never evaluated; it may be printed over several lines. It does
not hold the step: see `steps`.
"""

import re

from grpo_clinic.readers import aliases, limits, steps
from grpo_clinic.readers.dialect import LineRows, with_stated_step
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.table import Parsed

_PAIR = re.compile(
    r"""(['"])([^'"\n]{1,200})\1\s{0,4}:\s{0,4}('[^'\n]{0,80}'|"[^"\n]{0,80}"|[\w.+\-]{1,40}(?:\([^()\n]{0,80}\))?)"""
)
_BAR = re.compile(r"\|\s{0,8}(\d{1,9})/(\d{1,9}) \[[^\]\n]{0,60}(?:it/s|s/it)")
_TOTAL = re.compile(r"Total optimization steps\s{0,4}=\s{0,4}([\d,]{1,15})")
_START = re.compile(r"\{\s?['\"][\w/]")
_GOES_ON = re.compile(r"\s{0,40}['\"}]")
"""How a further line of a dictionary begins."""
_CYCLE = re.compile(r"\b(?:rollout|eval|perf) (\d{1,12}): $")
"""What slime prints before a dictionary; the rows of its training steps, `step 7: {`, belong to the cycle before."""
_OWN = {"loss", "grad_norm", "learning_rate", "epoch"}
"""Keys of a trainer's rows: where rows have one, a dictionary with a reward and none of them is somebody else's."""
_LONGEST = limits.MAX_KEY * 200


class TrlConsole(LineRows):
    """Dictionary lines, with the progress bars as the only witness of the step."""

    kind = "TRL console"

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._clues = steps.Clues()
        self._open = ""
        self._cycle: int | None = None
        self._own = False

    def feed(self, line: str) -> None:
        """Look for progress bars and dictionaries in one line."""
        if "/" in line and " [" in line:
            for bar in _BAR.finditer(line):
                self._clues.bar(int(bar[1]), int(bar[2]))
        total = _TOTAL.search(line)
        if total:
            self._clues.stated_total = int(total[1].replace(",", "") or 0)
        start = _START.search(line)
        if start is not None:
            if cycle := _CYCLE.search(line[max(start.start() - 40, 0) : start.start()]):
                self._cycle = int(cycle[1])
            self._give_up()
            self._take(line[start.start() :])
        elif self._open:
            if _GOES_ON.match(line) and len(self._open) < _LONGEST:
                self._take(self._open + line)
            elif "%|" not in line:  # a progress bar may stand in between
                self._give_up()

    def _take(self, text: str) -> None:
        """A row if the dictionary ends here, else its first lines."""
        body, end, _ = text.partition("}")
        self._open = "" if end else text
        if end:
            self._row(body)

    def _give_up(self) -> None:
        """A dictionary that never ended is a damaged row, if it was one of rewards."""
        if "reward" in self._open and ("'loss'" in self._open or '"loss"' in self._open):
            self._clues.damaged += 1
        self._open = ""

    def _row(self, text: str) -> None:
        pairs = {m[2]: m[3] for m in _PAIR.finditer(text[:_LONGEST])}
        if len(pairs) < 2 or not self._is_row(pairs):
            return
        row = dict(with_stated_step({key: value.strip("'\"") for key, value in pairs.items()}))
        if self._cycle is not None:
            row.setdefault("step", self._cycle)
        if "step" not in row:
            row["__row"] = self.table.rows
        self._own = self._own or bool(_OWN & row.keys())
        if self._own and not _OWN & row.keys() and self._holds_reward(row):
            return
        summary = "train_runtime" in row
        row |= {"__aside": 0, "__summary": int(summary)}
        if self._holds_reward(row):
            self.rewards += 1
        elif summary or any(key.startswith("eval_") for key in row):
            row["__aside"] = 1
        self.table.add(row)

    def close(self) -> None:
        """A dictionary that is still open is a damaged row."""
        self._give_up()

    def parsed(self) -> Parsed:
        """The rows with their steps, as exact as the log allows."""
        table, notes = steps.complete(self.table, self._clues, self._options.log_every)
        if self._clues.damaged:
            notes = (f"{self._clues.damaged} damaged row(s) left out", *notes)
        framework = aliases.TRL if {"reward", "loss"} <= set(table.keys) else ""
        return Parsed(self.kind, {"": table}, notes, framework)
