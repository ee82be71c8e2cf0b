"""Which columns and rows of a log are what: the reward, the step, held-out results, and what else it holds.

Each as asked, by a known name, or by a guess that is said.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grpo_clinic.readers import aliases, columns, limits
from grpo_clinic.readers.options import ReadOptions
from grpo_clinic.readers.record import COLUMNS, Floats, Series
from grpo_clinic.readers.table import LogTable, RowMask

_EVAL_PREFIX = re.compile(r"(eval|val|valid|validation|test|dev)([-_/.]|$)", re.IGNORECASE)
_NOT_A_MEAN = re.compile(
    r"(^|[-_/.@])(std|min|max|var|sum|minus|gap|diff|loss|lr|sec|seconds|time|advantage|advantages|adv)([-_/.@]|$)|zero|frac",
    re.I,
)
"""Keys that speak of the reward but are no mean of it."""
_NO_PART = ("/std", "/min", "/max", "/mean_std", "/var")
"""Ends of keys that are the spread of a reward, and no part of it."""
_OF_A_MEAN = ("n", "count", "std", "var", "sem", "min", "max", "median")
"""Columns that stand beside a mean."""
_KIND_KEYS = ("type", "log_type", "split", "phase", "mode", "kind", "stage", "event", "eval", "is_eval")
"""Columns in which loops say what a row is."""
_EVAL_WORDS = frozenset({"eval", "evaluation", "val", "valid", "validation", "test", "dev", "true"})
"""What an evaluation says there."""


def near(key: str, keys: Sequence[str]) -> str:
    """The log's names in place of `key`: first those that look like it, and how many more there are."""
    if not keys:
        return "the log has no numeric column"
    close = difflib.get_close_matches(key, keys, 5, 0.4)
    shown = [*close, *(one for one in keys if one not in close)][:8]
    more = f" and {len(keys) - len(shown)} more" if len(keys) > len(shown) else ""
    return f"the log has {', '.join(shown)}{more}"


def match_key(wanted: str, keys: list[str]) -> str | None:
    """The log's key that `wanted` names: exactly, or apart from a logger prefix, or as the last part of a path."""
    if wanted in keys:
        return wanted
    same = [key for key in keys if aliases.canonical(key).lower() == aliases.canonical(wanted).lower()]
    same = same or [key for key in keys if key.endswith((f".{wanted}", f"/{wanted}", f" {wanted}"))]
    return same[0] if same else None


def looks_like_evaluation(key: str) -> bool:
    """Whether a key by its own name is a held-out result."""
    return _EVAL_PREFIX.match(key) is not None


def reward_guesses(keys: list[str]) -> list[str]:
    """Keys that look like a mean reward, the likeliest first."""
    likely = [key for key in keys if re.search(r"reward|score(?!d)|return", key, re.I) and not _NOT_A_MEAN.search(key)]
    return sorted(likely, key=lambda key: ("mean" not in key.lower(), "total" not in key.lower(), len(key)))


class View:
    """A table as it is read: whose names count, which rows are evaluations, and which count for the reward (`pool`).

    `step` [rows] is NaN until `count_steps` was asked. Raises ValueError for a condition that no row fulfils.
    """

    def __init__(self, table: LogTable, options: ReadOptions, framework: str = "") -> None:
        self.table, self.options = table, options
        self.framework = framework or aliases.framework_of(table.keys)
        self.held_out = np.zeros(table.rows, bool)
        for key in table.text_keys:
            if key.lower() in _KIND_KEYS:
                self.held_out |= [word is not None and word.lower() in _EVAL_WORDS for word in table.words(key)]
        self.pool = self._chosen() if options.where else ~self.held_out
        self.step: Floats = np.full(table.rows, np.nan)
        self.step_key = self.step_text = ""

    def _chosen(self) -> RowMask:
        """Rows that fulfil every condition [rows]."""
        rows = np.ones(self.table.rows, bool)
        for key, wanted in self.options.conditions().items():
            if key in self.table.text_keys:
                rows &= [word == wanted for word in self.table.words(key)]
            elif key in self.table.keys:
                try:
                    rows &= self.table.column(key) == float(wanted)
                except ValueError:
                    rows &= False
            else:
                instead = near(key, self.table.text_keys + self.table.keys)
                raise ValueError(f"where: expected a column of the log, got '{key}'; {instead}")
        if not rows.any():
            raise ValueError(f"where: expected a condition that some row fulfils, got {self.options.conditions()!r}")
        return rows

    def candidates(self, role: str, keys: list[str] | None = None) -> list[tuple[str, aliases.Alias]]:
        """(key, alias) pairs of one role among the log's keys."""
        return aliases.candidates(role, self.table.keys if keys is None else keys, self.framework)

    def _named(self, option: str, wanted: str) -> str:
        """The log's key that the user's `option` asks for. Raises ValueError if there is none."""
        key = match_key(wanted, self.table.keys)
        if key is None:
            instead = near(wanted, self.table.keys)
            raise ValueError(f"{option}: expected a column of the log, got '{wanted}'; {instead}")
        return key

    def reward(self) -> tuple[str, str, bool]:
        """(key, sentence, is it an evaluation) of the reward column. Raises ValueError if the log holds none."""
        table, pool = self.table, self.pool
        if self.options.reward_key is not None:
            key = self._named("reward_key", self.options.reward_key)
            only_held_out = bool(self.held_out.any()) and not (table.has(key) & pool).any()
            return key, f"reward: '{key}' (given)", looks_like_evaluation(key) or only_held_out
        train = [key for key in table.keys if table.logged(key, pool) and not looks_like_evaluation(key)]
        ranked, guesses = self.candidates("reward", train), reward_guesses(train)
        keys = [key for key, _ in ranked] or guesses
        if keys:
            origin = f"{ranked[0][1].framework}, {ranked[0][1].versions}" if ranked else "guessed from its name"
            rest = ", ".join(f"'{key}'" for key in keys[1:4])
            return keys[0], f"reward: '{keys[0]}' ({origin}){f'; also there: {rest}' if rest else ''}", False
        alone = [key for key in train if not aliases.candidates("step", [key])]
        known = {key for role in COLUMNS for key, _ in self.candidates(role, alone)}
        means = [key for key in alone if key not in known and aliases.canonical(key).lower() not in _OF_A_MEAN]
        if [aliases.canonical(key) for key in means] == ["mean"]:
            return means[0], f"reward: '{means[0]}', the one mean beside the step", False
        if held := self.candidates("eval", [key for key in table.keys if table.logged(key)]):
            key = held[0][0]
            return key, f"reward: '{key}', an evaluation curve, because no training reward was found", True
        lost = self.lost_gradient()
        instead = near("reward", table.keys) + (f"; it shows that {lost}" if lost else "")
        raise ValueError(f"reward_key: expected a log with a reward column, got none; {instead}")

    def lost_gradient(self) -> str:
        """What a log without a reward shows all the same: a gradient norm that is not finite, beside a loss that is."""
        table = self.table
        for key, _ in self.candidates("grad_norm"):
            rows = self.pool & table.has(key)
            lost = rows & ~np.isfinite(table.column(key))
            if lost.any():
                text = f"'{key}' is not finite in {lost.sum()} of {rows.sum()} rows"
                forward = "loss" in table.keys and bool(np.all(np.isfinite(table.column("loss")[lost])))
                return f"{text}, where the loss is a number: it was lost in the backward pass" if forward else text
        return ""

    def gradient_lost(self) -> Floats:
        """Steps [k] whose gradient norm is logged and no number."""
        for key, _ in self.candidates("grad_norm"):
            rows = self.pool & self.table.has(key) & np.isfinite(self.step)
            value, step = self.table.column(key)[rows], self.step[rows]
            return np.setdiff1d(step[~np.isfinite(value)], step[np.isfinite(value)])
        return np.zeros(0)

    def count_steps(self, rows: RowMask) -> None:
        """Find the step of every row; the row's number among `rows` where nothing better is logged.

        A known name counts if more than half of the `rows` have it. Raises ValueError for a column that is not there.
        """
        if self.options.step_key is not None:
            self.step_key = self._named("step_key", self.options.step_key)
            self.step, self.step_text = self.table.column(self.step_key), f"step: '{self.step_key}' (given)"
            return
        for key, _ in aliases.candidates("step", self.table.keys):
            step = self.table.column(key)
            if np.isfinite(step[rows]).sum() > 0.5 * max(rows.sum(), 1):
                self.step, self.step_key, self.step_text = step, key, f"step: '{key}'"
                return
        self.step = np.cumsum(rows).astype(float)
        before = int((self.step == 0).sum())
        self.step[:before] = np.arange(1.0 - before, 1.0)
        self.step_text = "step: the number of the row, because no step is logged"

    def series(self, key: str, rows: RowMask, *, thin: bool = True, largest: bool = False) -> Series:
        """The finite numbers of a column in those of the rows [rows] that have a step."""
        value = self.table.column(key)
        rows = rows & np.isfinite(value)
        return columns.series_of(self.step, value, rows, key, thin=thin and self.options.thin, largest=largest)[0]

    def role(self, role: str) -> Series | None:
        """A named column on its own steps, from the rows of the filter or, if it is not logged there, training rows."""
        with_step = np.isfinite(self.step)
        for key, _ in self.candidates(role):
            filled = self.table.column(key) != 0 if role == "importance_ratio" else with_step  # a ratio of 0 is none
            for rows in (self.pool & with_step & filled, ~self.held_out & with_step & filled):
                if self.table.logged(key, rows):
                    return self._with_other_half(self.series(key, rows, largest=role == "age_max"), rows)
        return None

    def is_empty(self, role: str) -> bool:
        """Whether it was logged, without any number."""
        keys = [key for key, _ in self.candidates(role)]
        return bool(keys) and not any(self.table.logged(key) for key in keys)

    def _with_other_half(self, half: Series, rows: RowMask) -> Series | None:
        """The sum where a trainer logs its silent groups in two columns, else the one; None without the other."""
        end = next((end for end in aliases.OTHER_HALF if half.key.endswith(end)), "")
        if not end:
            return half
        key = half.key.removesuffix(end) + aliases.OTHER_HALF[end]
        if not self.table.logged(key, rows):
            return None
        both = np.nan_to_num(self.series(key, rows).at(half.step)) + half.value
        return replace(half, value=both, key=f"{half.key}' + '{key}")

    def loss(self) -> dict[str, Series]:
        """The first loss, for a log that holds nothing else in numbers."""
        rows = self.pool & np.isfinite(self.step)
        key = next((key for key in self.table.keys if key.endswith("loss") and self.table.logged(key, rows)), None)
        return {"loss": self.series(key, rows)} if key else {}

    def parts(self, reward_key: str) -> tuple[dict[str, Series], tuple[str, ...]]:
        """(parts of the reward and further reward keys of the same run by key, how many were left out, in words)."""
        rows = self.pool & np.isfinite(self.step)
        keys = dict.fromkeys(key for role in ("part", "reward") for key, _ in self.candidates(role))
        wanted = [
            key for key in keys if key != reward_key and not key.endswith(_NO_PART) and self.table.logged(key, rows)
        ]
        more = len(wanted) - limits.MAX_PARTS
        left_out = (f"{more} of {len(wanted)} parts of the reward left out",) if more > 0 else ()
        return {key: self.series(key, rows) for key in wanted[: limits.MAX_PARTS]}, left_out

    def results(self, rows: RowMask, reward_key: str = "", eval_key: str | None = None) -> Series | None:
        """The held-out series: the key asked for, else a known name, else the reward key within these rows."""
        with_step = np.isfinite(self.step)
        chosen = rows & with_step
        if eval_key is not None:
            key = self._named("eval_key", eval_key)
            return self.series(key, chosen if self.table.logged(key, chosen) else with_step, thin=False)
        inside = [key for key in self.table.keys if self.table.logged(key, chosen)]
        ranked = [key for role in ("reward", "part") for key, _ in self.candidates(role, inside)]
        outside = [key for key in self.table.keys if key != reward_key and looks_like_evaluation(key)]
        pairs = [(key, chosen) for key in (*(key for key in ranked if key == reward_key), *ranked)]
        pairs += [(key, with_step) for key, _ in self.candidates("eval", outside)]
        return next(
            (self.series(key, where, thin=False) for key, where in pairs if self.table.logged(key, where)), None
        )

    def repeated_settings(self) -> dict[str, float]:
        """Settings that the log repeats on its rows and that never change in it."""
        settings: dict[str, float] = {}
        for role in ("group_size", "refresh_interval", "prompts"):
            for key, _ in self.candidates(role):
                values = np.unique(self.table.column(key)[np.isfinite(self.table.column(key))])
                if values.size == 1:
                    settings.setdefault(role, float(values[0]))
        return settings

    def unread(self, used: set[str]) -> tuple[str, ...]:
        """Numeric columns that hold something and that nothing was taken from, by name."""
        parts = {part for key in used for part in key.split("' + '")}
        free = (key for key in self.table.keys if key not in parts and not key.startswith("__"))
        return tuple(key for key in free if self.table.logged(key))
