"""Lines of `name: value` joined by bars behind a step: prime-rl's console, and Megatron's.

    Step 12 | Time: 35.13s | Reward: 0.0312 | Val. Reward: 0.1200 | Seq. Length: 1000.0 tokens/sample
     iteration       10/     100 | consumed samples: 5120 | learning rate: 1.000000E-06 | reward: 3.1E-01 |

Written from prime-rl's orchestrator (`step_message`) and Megatron-LM's `training_log`; no real log was at hand.
"""

import re

from grpo_clinic.readers import aliases
from grpo_clinic.readers.dialect import LineRows
from grpo_clinic.readers.normalise import Parsed
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.scalars import NUMBER

_START = re.compile(r"\b(Step|iteration)\s{1,12}(\d{1,12})(?:/\s{0,12}\d{1,12})?\s{1,4}\|")
_PAIR = re.compile(rf"\s{{0,4}}([A-Za-z][\w .()/\-]{{0,60}}?):\s{{0,12}}({NUMBER})")
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


class PipedConsole(LineRows):
    """One row per line; the whole text before a colon is the name, so that a validation reward is no reward."""

    def __init__(self, options: ReadOptions):
        super().__init__(options)
        self._prime = False

    def feed(self, line: str) -> None:
        """Take one line apart if it begins with a step and a bar."""
        if "|" not in line or (start := _START.search(line)) is None:
            return
        row: dict[str, object] = {}
        for cell in line[start.end() :].split("|")[:100]:
            if pair := _PAIR.match(cell):
                row[_NAMES.get(pair[1], pair[1].lower())] = pair[2]
        if row:
            self._prime |= start[1] == "Step"
            self._keep({**row, "step": start[2]})

    def parsed(self) -> Parsed:
        """All rows."""
        kind = "prime-rl console" if self._prime else "Megatron console"
        return Parsed(kind, {"": self._table}, framework=aliases.PRIME if self._prime else "")
