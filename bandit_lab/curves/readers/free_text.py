"""Free text with `name: number` pairs, or one line per quantity such as `Percentage of correct examples: 0.07`.

Without a step on the line the last one mentioned counts, and without any the number of the row.
"""

import re

from bandit_lab.curves.normalise import Parsed
from bandit_lab.curves.options import ReadOptions
from bandit_lab.curves.readers.dialect import is_reward_key
from bandit_lab.curves.scalars import NUMBER
from bandit_lab.curves.table import Table

_VALUE = rf"(?:np\.float\d\d\()?({NUMBER})%?"
_PAIR = re.compile(rf"(?<![\w/.\-])([A-Za-z_][\w/@.\-]{{0,60}})['\"]?\s{{0,4}}[:=]\s{{0,4}}['\"]?{_VALUE}(?![\w.])")
_STEP = re.compile(r"\b(?:global[_ ])?(?:step|iteration|iter|update)s?[\s:=#]{1,4}(\d{1,12})\b", re.IGNORECASE)
_MENTIONS_STEP = re.compile(r"step|iter|update", re.IGNORECASE)
_MENTIONS_REWARD = re.compile(r"reward|score|return", re.IGNORECASE)
_LONGEST = 20_000


class FreeText:
    """Pairs on lines that hold a reward; with a `reward_key` its literal text is looked for, spaces and all."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._table = Table()
        self._rewards = 0
        self._step: str | None = None
        self._steps = 0
        self._literal = None
        if options.reward_key:
            key = re.escape(options.reward_key.strip().rstrip(":=").strip())
            self._literal = re.compile(rf"{key}['\"]?\s{{0,4}}[:=]?\s{{0,8}}['\"]?{_VALUE}", re.IGNORECASE)

    @property
    def found(self) -> int:
        """Rows so far that hold a reward, halved: a structured dialect that found as many is to be preferred."""
        return (self._rewards + 1) // 2

    def feed(self, line: str) -> None:
        """Keep the pairs of a line that holds a reward, and remember the step of any line."""
        if len(line) > _LONGEST:
            return
        step = _STEP.search(line) if _MENTIONS_STEP.search(line) else None
        if step:
            self._step = step[1]
        row: dict[str, object] = {}
        if self._literal is not None:
            hit = self._literal.search(line)
            if hit is None:
                return
            row[self._options.reward_key or ""] = hit[1]
        elif not _MENTIONS_REWARD.search(line):
            return
        pairs = {m[1]: m[2] for m in _PAIR.finditer(line)}
        rewarded = [key for key in pairs if is_reward_key(key) or is_reward_key(key.lower())]
        if self._literal is None and not rewarded:
            return
        row |= {key.lower() if key in rewarded else key: value for key, value in pairs.items()}
        if self._step is not None and "step" not in row:
            row["step"] = self._step
        self._rewards += 1
        self._table.add(row)

    def parsed(self) -> Parsed:
        """All rows that held a reward."""
        return Parsed("free text", {"": self._table})
