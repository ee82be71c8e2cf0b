"""What the console dialects share: telling rows that matter from configuration dumps, and keeping them."""

from collections.abc import Mapping
from functools import lru_cache

from grpo_clinic.readers import aliases
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.table import LogTable
from grpo_clinic.readers.which import match_key

_ANYWAY = frozenset({"loss", "train_loss", "train_runtime", "eval_loss", "eval_runtime"})


@lru_cache(maxsize=2**15)
def _is_metric(key: str) -> bool:
    return aliases.canonical(key) in _ANYWAY or aliases.known(key)


@lru_cache(maxsize=2**15)
def is_reward_key(key: str) -> bool:
    """Whether a key is a known name of a training reward."""
    return bool(aliases.candidates("reward", [key]))


def is_row(row: Mapping[str, object], options: ReadOptions) -> bool:
    """Whether a dictionary found in text is a row of metrics: it holds a known name or one the user gave."""
    wanted = [key for key in (options.reward_key, options.eval_key) if key]
    return any(_is_metric(key) for key in row) or any(match_key(key, list(row)) for key in wanted)


def holds_reward(row: Mapping[str, object], options: ReadOptions) -> bool:
    """Whether a row holds the reward asked for, or, if none was named, any known reward."""
    if options.reward_key:
        return match_key(options.reward_key, list(row)) is not None
    return any(is_reward_key(key) for key in row)


def with_stated_step(row: Mapping[str, object]) -> Mapping[str, object]:
    """The row with ms-swift's `global_step/max_steps`, `5/875`, as its step; its rows are not evenly spaced."""
    text = row.get("global_step/max_steps")
    done = text.partition("/")[0].strip().strip("'\"") if isinstance(text, str) else ""
    return {**row, "step": int(done)} if done.isascii() and done.isdigit() and len(done) <= 12 else row


class LineRows:
    """The rows found so far; a dialect adds `feed(line)` and `parsed()`."""

    def __init__(self, options: ReadOptions):
        self._options = options
        self._table = LogTable()
        self._rewards = 0

    @property
    def found(self) -> int:
        """Rows so far that hold a reward."""
        return self._rewards

    @property
    def rows(self) -> int:
        """Rows since the last `drain`, with a reward or without."""
        return self._table.rows

    def drain(self) -> list[dict[str, object]]:
        """The rows since the last call, for a log that grows; they are not kept."""
        rows, self._table = self._table.dictionaries(), LogTable()
        return rows

    def _keep(self, row: Mapping[str, object]) -> None:
        self._rewards += holds_reward(row, self._options)
        self._table.add(row)
