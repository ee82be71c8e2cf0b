"""Consoles of AReaL, prime-rl and SkyRL: without them free text would read another column.

Written from the trainers' sources: AReaL's `StatsLogger.commit` and `tabulate_stats`, prime-rl's `step_message`,
SkyRL's `tracking.ConsoleLogger`. Of AReaL and SkyRL no real log was at hand.
"""

import ast
import re
from itertools import pairwise

from grpo_clinic.readers import aliases, scalars
from grpo_clinic.readers.dialect import LineRows
from grpo_clinic.readers.options import ReadOptions

_AREAL_STEP = re.compile(r"\bTrain step (\d{1,12})/\d{1,12} done")
_BARS = re.compile(r"[│║┃|]")
_NAME = re.compile(r"[A-Za-z][\w/@.\-]{1,200}")
_MOST = 2_000
_PIPED = re.compile(r"\b(Step|iteration)\s{1,12}(\d{1,12})(?:/\s{0,12}\d{1,12})?\s{1,4}\|")
_PAIR = re.compile(rf"\s{{0,4}}([A-Za-z][\w .()/\-]{{0,60}}?):\s{{0,12}}({scalars.NUMBER})")
_NAMES = {
    "Reward": "reward/mean",
    "Val. Reward": "val_reward",
    "Seq. Length": "seq_len/mean",
    "Entropy": "entropy/mean",
    "Mismatch KL": "mismatch_kl/mean",
    "Grad. Norm": "optim/grad_norm",
    "LR": "optim/lr",
    "grad norm": "grad_norm",
    "learning rate": "learning_rate",
}
"""What the console calls a quantity -> what the trainer's metrics call it."""
_SKYRL_STEP = re.compile(r"\bStep (\d{1,12}): ?$")
_PREFIX = re.compile(r"^\s{0,8}\([\w.]{1,60} pid=\d{1,12}[^)\n]{0,80}\)\s?")
_LONGEST = 200_000


class _ArealConsole(LineRows):
    """`Epoch 1/10 Step 3/58 Train step 3/580 done.`, then grids of names and numbers that belong to it."""

    kind = "AReaL console"

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._row: dict[str, object] = {}
        self._step: str | None = None

    def feed(self, line: str) -> None:
        """Note a step, or take the cells of a grid."""
        if match := _AREAL_STEP.search(line):
            self.close()
            self._step = match[1]
        elif self._step is not None and _BARS.search(line):
            cells = [cell.strip() for cell in _BARS.split(line)[:100]]
            for name, value in pairwise(cells):
                if _NAME.fullmatch(name) and len(self._row) < _MOST and scalars.parse(value) is not None and value:
                    self._row[name] = value

    def close(self) -> None:
        """The last row ends with the text."""
        if self._row and self._step is not None:
            self._keep({**self._row, "step": self._step})
            self.framework = aliases.AREAL
        self._row = {}


class _PipedConsole(LineRows):
    """prime-rl's lines of `name: value` joined by bars behind a step, and Megatron's.

        Step 12 | Time: 35.13s | Reward: 0.0312 | Val. Reward: 0.1200 | Seq. Length: 1000.0 tokens/sample

    The whole text before a colon is the name, so that a validation reward is no reward.
    """

    kind = "Megatron console"

    def feed(self, line: str) -> None:
        """Take one line apart if it begins with a step and a bar."""
        if "|" not in line or (start := _PIPED.search(line)) is None:
            return
        cells = line[start.end() :].split("|")[:100]
        row = {_NAMES.get(pair[1], pair[1].lower()): pair[2] for cell in cells if (pair := _PAIR.match(cell))}
        if row and start[1] == "Step":
            self.kind, self.framework = "prime-rl console", aliases.PRIME
        if row:
            self._keep({**row, "step": start[2]})


class _SkyrlConsole(LineRows):
    """A line `Step 12: `, then a dictionary over several lines, decimals in quotes; one that is cut off is left out.

    The trainer's own line with the raw reward stands *before* that of its step, so that free text would count it to the
    step before. It finds each reward there as well: rewards count double here.
    """

    kind, worth = "SkyRL console", 2.0

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._step: str | None = None
        self._text: list[str] = []
        self._length = 0

    def feed(self, line: str) -> None:
        """Begin at a step, and gather lines until the dictionary is closed."""
        line = line.rstrip("\r\n")
        if "Step " in line and (start := _SKYRL_STEP.search(line)) is not None:
            self._step, self._text, self._length = start[1], [], 0
            return
        if self._step is None:
            return
        line = _PREFIX.sub("", line)
        self._length += len(line)
        if self._length > _LONGEST or (not self._text and not line.startswith("{")):
            self._step = None
            return
        self._text.append(line)
        if not line.endswith("}"):
            return
        try:
            row = ast.literal_eval("\n".join(self._text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return  # a brace inside a value: the dictionary goes on
        if isinstance(row, dict) and all(isinstance(key, str) for key in row) and self._is_row(row):
            self._keep({**row, "step": self._step})
        self._step = None


CONSOLES = (_PipedConsole, _ArealConsole, _SkyrlConsole)
"""In the order in which they are asked."""
