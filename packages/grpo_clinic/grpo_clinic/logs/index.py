"""A table of runs: one CSV row per run says where its log is, how to read it, and what is known of it.

`file` is a path beside the table; the rest may be absent or empty. `run_id` names the run, `selector` picks it in a
shared file (`column=name`), `reward_key` says where the reward stands: a column, `rows type=rollout: column`,
`metric=name` of a long table, `list[].column` of nested rows, or quoted text; a remark in brackets behind it is
allowed. `eval_curve` may name a file with the run's held-out results, and behind a semicolon files with further columns
of it; `.entropy.json` is the log's own name with that ending. `G`, `K_ref`, `learning_rate` are the trainer's, of which
the leading number counts.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_clinic import _checks
from grpo_clinic._text import visible
from grpo_clinic.readers import limits

_LARGEST_SETTING = 1e12
_KEYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"rows (\w+)=([^:]+): ([^()]+?)( \(.*\))?", ("where", "value", "reward_key")),
    (r"metric=(\S+)( \(.*\))?", ("reward_key",)),
    (r"\w+\[\]\.([^()]+?)( \(.*\))?", ("reward_key",)),
    (r'"(.+)"', ("reward_key",)),
    (r"([^()]+?)( \(.*\))?", ("reward_key",)),
)


@dataclass(frozen=True)
class IndexEntry:
    """One row: the log, how to read it (`where`, `reward_key`, `run`), further files of the run, and `settings`: the
    trainer's group_size, refresh_interval and learning_rate, None where not known."""

    name: str
    path: Path
    reading: Mapping[str, Any]
    eval_path: Path | None
    beside: tuple[Path, ...]
    settings: Mapping[str, Any]


def read_index(path: str) -> list[IndexEntry]:
    """The rows of a table of runs. Raises ValueError, naming the file, for anything that is not such a table."""
    place = Path(path)
    wanted = "a CSV with one run per row and a column 'file'"
    try:
        size = place.stat().st_size
        _checks.require(size <= limits.MAX_INDEX_BYTES, "logs_index", f"at most {limits.MAX_INDEX_BYTES} bytes", size)
        with open(place, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise ValueError(f"logs_index: expected a readable file, got {path!r} ({error.strerror})") from None
    except (csv.Error, UnicodeDecodeError):
        raise ValueError(f"logs_index: expected {wanted}, got something else in {path!r}") from None
    _checks.require(bool(rows) and "file" in rows[0], "logs_index", wanted, path)
    return [_entry(row, place.parent) for row in rows if row.get("file")]


def _entry(row: Mapping[str, str | None], folder: Path) -> IndexEntry:
    def cell(name: str) -> str:
        value = row.get(name)
        return value.strip() if isinstance(value, str) else ""

    reading = _reward_options(cell("reward_key")) if cell("reward_key") else {}
    column, equals, name = cell("selector").partition("=")
    if equals and re.fullmatch(r"\w+", column):
        reading["run"] = name
    place = folder / cell("file")
    _checks.require(bool(place.name), "logs_index", "the name of a file in the column 'file'", cell("file"))
    results, *others = [_files(clause, place) for clause in cell("eval_curve").split(";")]
    size, interval, rate = (_leading_number(cell(key)) for key in ("G", "K_ref", "learning_rate"))
    return IndexEntry(
        visible(cell("run_id") or Path(cell("file")).stem),
        place,
        reading,
        results[0] if results else None,
        tuple(path for paths in others for path in paths),
        {"group_size": int(size or 0) or None, "refresh_interval": interval, "learning_rate": rate},
    )


def _files(text: str, log: Path) -> list[Path]:
    """Files beside `log` that a text names: by their name, or by the ending that they add to that of the log."""
    names = re.findall(r"[^\s,]*\.(?:jsonl?|ndjson|csv|tsv|log|txt)\b", text)
    inside = [name for name in names if not name.startswith("/") and ".." not in name]
    endings = [name.startswith(".") and "/" not in name for name in inside]
    return [log.parent / (log.stem * own + name) for name, own in zip(inside, endings, strict=True)]


def _reward_options(text: str) -> dict[str, str]:
    """Options of the readers for one text of the column `reward_key`."""
    for pattern, names in _KEYS:
        if match := re.fullmatch(pattern, text):
            options = dict(zip(names, match.groups(), strict=False))
            if "value" in options:
                options["where"] = f"{options['where']}={options.pop('value')}"
            return options
    return {"reward_key": text}


def _leading_number(text: str) -> float | None:
    match = re.match(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?", text)
    return positive(float(match[0])) if match else None


def positive(number: float | None) -> float | None:
    """The number if it can be one of a trainer's settings, which are positive and far below the largest float."""
    return number if number is not None and 0 < number < _LARGEST_SETTING else None
