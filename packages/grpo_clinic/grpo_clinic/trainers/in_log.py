"""Settings that stand in the log itself, or in a file beside it: what a run was started with, not what is assumed.

Read are verl's configuration dump on the console, printed arguments (`Namespace(...)`, `GRPOConfig(...)`), lines such
as `KL coef: 0.01`, TensorBoard's text of the arguments, settings that rows of JSON repeat, and wandb's or Hydra's
configuration beside the log. Nothing is evaluated or unpickled, and only the first part of a log is looked at.
"""

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from grpo_clinic.readers import source
from grpo_clinic.readers.tensorboard_events import texts
from grpo_clinic.trainers import configuration
from grpo_clinic.trainers.base import as_number, plain_scalar

MAX_CHARACTERS = 4_000_000
_MOST_LINES = 20_000
_LONGEST_DUMP = 200_000
_MOST_ROWS = 400
_MOST_STARTS = 12
_PREFIX = re.compile(r"^\s{0,8}\([\w.]{1,60} pid=\d{1,12}[^)\n]{0,80}\)\s?")
_DUMP = re.compile(r"\{\s?['\"](?:actor_rollout_ref|algorithm|data|trainer)['\"]\s?:\s?\{")
_CALL = re.compile(r"\b(?:Namespace|[A-Z]\w{0,40}(?:Config|Arguments))\(")
_PAIR = re.compile(
    r"(?<![\w.])([A-Za-z_]\w{0,60})\s?=\s?('[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|\[[^\[\]\n]{0,200}\]|[^\s,()\[\]{}<>]{1,80})"
)
_LINE = re.compile(r"^[\s\-*|]{0,12}([A-Za-z][A-Za-z _\-]{0,40}?)\s{0,8}[:=]\s{0,8}([\d.eE+\-]{1,24})\s*$")
_SPOKEN = {
    "kl_weight": ("kl coef", "kl coefficient", "kl weight", "kl beta", "beta"),
    "group_size": ("rollouts per prompt", "group size", "num generations", "generations per prompt",
                   "samples per prompt"),
    "learning_rate": ("learning rate", "lr"),
    "refresh_interval": ("updates per batch", "optimizer steps per rollout", "updates per rollout"),
    "epochs": ("num iterations", "ppo epochs", "epochs per rollout batch"),
}  # fmt: skip
"""What programs print before a number, as words; `_` and `-` count as spaces."""
_REPEATED = (
    "group_size", "num_generations", "rollouts_per_prompt", "learning_rate", "kl_coef", "kl_beta", "kl_weight", "beta",
    "cliprange", "cliprange_low", "cliprange_high", "epochs_per_rollout_batch", "num_train_batches",
    "rollout_batch_size", "train_batch_size", "optimizer_updates_per_rollout_batch", "optimizer_steps_per_rollout",
    "ppo_epochs", "num_iterations", "steps_per_generation", "gradient_accumulation_steps",
    "per_device_train_batch_size", "scale_rewards", "loss_type", "adam_beta1", "adam_beta2", "weight_decay",
)  # fmt: skip
"""Keys that are settings where a row of a log holds them, always with one value."""
_BESIDE = ("config.yaml", "config.yml", "config.json", "wandb_config.yaml", "training_args.json", "args.json",
           ".hydra/config.yaml", "files/config.yaml")  # fmt: skip


def settings_of_log(path: str, seen: Mapping[str, float] | None = None) -> configuration.Configuration | None:
    """The settings that a log holds, or a file beside it; None without any. `seen` are those its reader found.

    A damaged or hostile file gives None: that it cannot be read is for its reader to say.
    """
    place = Path(path)
    try:
        inside = {} if os.path.isdir(place) else _inside(place)
    except (ValueError, OSError, RecursionError, MemoryError):
        inside = {}
    values = {**(seen or {}), **inside}
    if values:
        return configuration.Configuration(path, "settings in the log", values)
    return _beside(place)


def _inside(path: Path) -> dict[str, Any]:
    source.check(path)
    start = source.head(path)
    if source.is_event_file(start):
        return _from_texts(texts(path))
    source.refuse_binary(start)
    raw = list(_first(path))
    lines = [_PREFIX.sub("", line) for line in raw]
    stripped = "\n".join(lines).lstrip()
    if stripped[:1] in ("[", "{") and not _DUMP.match(stripped):
        return _repeated(_rows(stripped, lines))
    return {**_spoken(lines), **_calls(lines), **_dump(raw)}


def first_lines(path: Path) -> Iterator[str]:
    """Lines without the prefixes of ray, up to a number of them and of characters."""
    return (_PREFIX.sub("", line) for line in _first(path))


def _first(path: Path) -> Iterator[str]:
    held = 0
    for count, line in enumerate(source.Lines(path)):
        held += len(line)
        if count >= _MOST_LINES or held > MAX_CHARACTERS:
            return
        yield line.rstrip("\n")


def _dump(lines: list[str]) -> dict[str, Any]:
    """The first nested dictionary of settings, taken apart as literals.

    Behind a ray prefix only lines with the same one count: other processes write in between.
    """
    for place, start in _starts(_DUMP, lines):
        kept, depth, held = [], 0, 0
        prefix = _PREFIX.match(lines[place])
        mine = "" if prefix is None else prefix[0].strip()
        rest = (line for line in lines[place + 1 : place + 4000] if line.strip().startswith(mine))
        for further in (lines[place][start.start() :], *(_PREFIX.sub("", line) for line in rest)):
            depth += further.count("{") - further.count("}")
            held += len(further)
            kept.append(further)
            if depth <= 0 or held > _LONGEST_DUMP:
                break
        text = "\n".join(kept)
        if depth > 0 or held > _LONGEST_DUMP:
            continue
        try:
            nested = ast.literal_eval(text[: text.rfind("}") + 1])
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(nested, dict):
            return configuration.from_options(nested)
    return {}


def _calls(lines: list[str]) -> dict[str, Any]:
    """Arguments that a program printed as a call, on one line or on one line each."""
    found: dict[str, Any] = {}
    for place, start in _starts(_CALL, lines):
        text = lines[place][start.end() :]
        if text.strip() in ("", "\\"):
            closed = next((at for at, one in enumerate(lines[place + 1 : place + 600]) if one.strip() == ")"), 0)
            text = "\n".join(lines[place + 1 : place + 1 + closed])
        for name, value in _PAIR.findall(text[:_LONGEST_DUMP]):
            found.setdefault(name, _listed(value))
    return found


def _starts(pattern: re.Pattern[str], lines: list[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Where a pattern is met, by line: the first few, so that a hostile log costs no more than an honest one."""
    met = ((place, match) for place, line in enumerate(lines) if (match := pattern.search(line[:_LONGEST_DUMP])))
    yield from islice(met, _MOST_STARTS)


def _listed(value: str) -> Any:
    if value.startswith("["):
        return [plain_scalar(one) for one in value.strip("[]").split(",")[:16]]
    return plain_scalar(value)


def _spoken(lines: list[str]) -> dict[str, Any]:
    """Settings that were printed as `words: number`, one on a line, each the first time."""
    known = {words: quantity for quantity, every in _SPOKEN.items() for words in every}
    found: dict[str, Any] = {}
    for line in lines:
        if len(line) > 120 or (match := _LINE.match(line)) is None:
            continue
        quantity = known.get(re.sub(r"[_\-\s]+", " ", match[1]).strip().lower())
        number = as_number(match[2])
        if quantity is not None and number is not None:
            found.setdefault(quantity, number)
    return found


def _rows(text: str, lines: list[str]) -> Iterator[Mapping[str, Any]]:
    """Rows of a JSON list, or of JSON lines."""
    if text[:1] == "[":
        try:
            found = json.loads(text)
        except ValueError:
            return
        yield from (one for one in found[:_MOST_ROWS] if isinstance(one, dict))
        return
    for line in lines[:_MOST_ROWS]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            data = row.get("data")
            yield data if isinstance(data, dict) else row


def _repeated(rows: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings among the keys of rows that have one value in all of them."""
    seen: dict[str, set[Any]] = {}
    for row in rows:
        nested = row.get("config") or row.get("args")
        for key, value in {**row, **(nested if isinstance(nested, dict) else {})}.items():
            if key in _REPEATED and isinstance(value, int | float | str):
                seen.setdefault(key, set()).add(value)
    return {key: plain_scalar(next(iter(values))) for key, values in seen.items() if len(values) == 1}


def _from_texts(found: Iterable[str]) -> dict[str, Any]:
    """The arguments among TensorBoard's texts, which are JSON."""
    for text in found:
        try:
            nested = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(nested, dict) and ("learning_rate" in nested or "num_generations" in nested):
            return configuration.from_options(nested)
    return {}


def _beside(path: Path) -> configuration.Configuration | None:
    """A configuration in the log's folder: of a common name, or one whose name begins as the log's does."""
    folder = path if os.path.isdir(path) else path.parent
    own = path.name.partition("__")[0] + "__" if "__" in path.name else path.stem + "."
    try:
        named = [
            one
            for one in sorted(os.listdir(folder))[:2000]
            if one.startswith(own) and "config" in one.lower() and one.endswith((".yaml", ".yml", ".json"))
        ]
    except OSError:
        return None  # fmt: skip
    for name in (*named, *_BESIDE):
        if name == path.name or not os.path.isfile(folder / name):
            continue
        try:
            found = configuration.load(str(folder / name))
        except ValueError:
            continue
        if any(key in found.values for key in ("num_generations", "learning_rate", "group_size")) or any(
            key.startswith("actor_rollout_ref.") for key in found.values
        ):
            return found
    return None
