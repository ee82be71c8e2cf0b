"""What the console dialects share: telling rows that matter from configuration dumps, and keeping them."""

from collections.abc import Mapping
from functools import lru_cache

from grpo_clinic.readers import aliases
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.table import LogTable, Parsed
from grpo_clinic.readers.which import match_key

_ANYWAY = frozenset({"loss", "train_loss", "train_runtime", "eval_loss", "eval_runtime"})


@lru_cache(maxsize=2**15)
def _is_metric(key: str) -> bool:
    return aliases.canonical(key) in _ANYWAY or aliases.is_known(key)


@lru_cache(maxsize=2**15)
def is_reward_key(key: str) -> bool:
    """Whether a key is a known name of a training reward."""
    return bool(aliases.candidates("reward", [key]))


def is_row(row: Mapping[str, object], options: ReadOptions) -> bool:
    """Whether a dictionary found in text is a row of metrics: it holds a known name or one the user gave."""
    wanted = [key for key in (options.reward_key, options.eval_key) if key]
    return any(_is_metric(key) for key in row) or any(match_key(key, list(row)) for key in wanted)


def with_stated_step(row: Mapping[str, object]) -> Mapping[str, object]:
    """The row with ms-swift's `global_step/max_steps`, `5/875`, as its step; its rows are not evenly spaced."""
    text = row.get("global_step/max_steps")
    done = text.partition("/")[0].strip().strip("'\"") if isinstance(text, str) else ""
    return {**row, "step": int(done)} if done.isascii() and done.isdigit() and len(done) <= 12 else row


class LineRows:
    """One console format: `feed` sees every line once, in order, colour codes removed, and keeps what it knows.

    Nothing may raise on odd text, no regular expression may backtrack without bound, and no text is ever evaluated.
    `worth` says what a row with a reward counts where several dialects find some.
    """

    kind, framework, worth = "", "", 1.0

    def __init__(self, options: ReadOptions):
        self._options = options
        self.table = LogTable()
        self.rewards = 0

    def feed(self, line: str) -> None:
        """Look at one line."""
        raise NotImplementedError

    def close(self) -> None:
        """The text ends here."""

    def parsed(self) -> Parsed:
        """The recognised rows."""
        return Parsed(self.kind, {"": self.table}, framework=self.framework)

    def _is_row(self, row: Mapping[str, object]) -> bool:
        return is_row(row, self._options)

    def _holds_reward(self, row: Mapping[str, object]) -> bool:
        """Whether a row holds the reward asked for, or, if none was named, any known reward."""
        if self._options.reward_key:
            return match_key(self._options.reward_key, list(row)) is not None
        return any(is_reward_key(key) for key in row)

    def _keep(self, row: Mapping[str, object]) -> None:
        self.rewards += self._holds_reward(row)
        self.table.add(row)
