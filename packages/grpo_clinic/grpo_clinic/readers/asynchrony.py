"""Names that say that samples may be older than the policy they train: of settings, and of columns of a log.

A name says so where a part of it (between dots or slashes) holds a word of `_WORDS`. Parts about something else that is
asynchronous do not count: saving, serving, the reward, a correction, a mask. It counts where its value is on: a column
that is zero in every row says that nothing was stale.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from grpo_clinic.readers.table import LogTable

_WORDS = re.compile(r"stale|off_?policy|async|trajectory_age|weight_version")
_ASIDE = re.compile(
    r"save|saving|checkpoint|ckpt|offload|upload|prefetch|server|engine|schedul|reward|correction|mask|_target_"
)
_OFF = ("off", "no", "none", "null", "false", "disabled", "sync", "synchronous", "0", "")


def section(key: str) -> str:
    """The key up to the first part that says so; empty where none does."""
    parts = re.split(r"([./])", key.lower().replace("-", "_"))
    if _ASIDE.search(parts[-1]):
        return ""
    for place, part in enumerate(parts):
        if _WORDS.search(part) and not _ASIDE.search(part):
            return key[: len("".join(parts[: place + 1]))]
    return ""


def is_on(value: Any) -> bool:
    """Whether a setting's value is one: not false, zero, empty, or a word for it."""
    return value.strip().lower() not in _OFF if isinstance(value, str) else bool(value)


def switched_on(values: Mapping[str, Any]) -> dict[str, str]:
    """The keys that say so and are on -> their section.

    Left out are those with a switch that is off: `enabled` or `enable` of their section, or a truth value that says so
    beside them (`async_training: false`). `program`, the script of a command line, says so by its value.
    """
    off, beside = set(), set()
    for key, value in values.items():
        place, _, name = key.rpartition(".")
        if name in ("enabled", "enable") and not is_on(value):
            off.add(place)
        if "async" in name.lower() and section(key) == key and value is False:
            beside.add(place)
    found = {key: section(key) for key, value in values.items() if section(key) and is_on(value)}
    found = {key: there for key, there in found.items()
             if there not in off and (there != key or key.rpartition(".")[0] not in beside)}  # fmt: skip
    program = str(values.get("program") or "")
    return {**found, "program": "program"} if section(program) else found


def columns_that_say_so(table: LogTable) -> tuple[str, ...]:
    """Numeric columns that say so and are not zero throughout, and columns of words that do."""
    numeric = [key for key in table.keys if section(key) and np.any(np.nan_to_num(table.column(key)) != 0)]
    return (*numeric, *(key for key in table.text_keys if section(key)))
