"""Settings that stand in the log itself, or in a file beside it: what a run was started with, not what is assumed.

Read are verl's configuration dump on the console, and wandb's or Hydra's configuration beside the log. Nothing is
evaluated, and only the first part of a log is looked at.
"""

import ast
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from grpo_clinic.readers import limits, source
from grpo_clinic.trainers import configuration

_MOST_STARTS = 12
_PREFIX = re.compile(r"^\s{0,8}\([\w.]{1,60} pid=\d{1,12}[^)\n]{0,80}\)\s?")
_DUMP = re.compile(r"\{\s?['\"](?:actor_rollout_ref|algorithm|data|trainer)['\"]\s?:\s?\{")
_BESIDE = ("config.yaml", "config.yml", "config.json", "wandb_config.yaml", "training_args.json", "args.json",
           ".hydra/config.yaml", "files/config.yaml")  # fmt: skip


def settings_of_log(path: str, seen: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The settings that a log holds, else a file beside it. `seen` are those its reader found.

    A damaged or hostile file gives none: that it cannot be read is for its reader to say.
    """
    place = Path(path)
    try:
        inside = {} if os.path.isdir(place) else _inside(place)
    except (ValueError, OSError, RecursionError, MemoryError):
        inside = {}
    return {**(seen or {}), **inside} or _beside(place)


def _inside(path: Path) -> dict[str, Any]:
    source.check(path)
    source.refuse_binary(source.head(path))
    lines = list(_first(path))
    return _dump(lines)


def _first(path: Path) -> Iterator[str]:
    held = 0
    for line in islice(source.Lines(path), limits.MAX_HEAD_LINES):
        held += len(line)
        if held > limits.MAX_HEAD_CHARACTERS:
            return
        yield line.rstrip("\n")


def _dump(lines: list[str]) -> dict[str, Any]:
    """The first nested dictionary of settings, taken apart as literals.

    Behind a ray prefix only lines with the same one count: other processes write in between.
    """
    met = ((place, brace) for place, line in enumerate(lines) if (brace := _DUMP.search(line[: limits.MAX_DUMP])))
    for place, start in islice(met, _MOST_STARTS):  # so that a hostile log costs no more than an honest one
        block, depth, held = [], 0, 0
        prefix = _PREFIX.match(lines[place])
        mine = "" if prefix is None else prefix[0].strip()
        rest = (line for line in lines[place + 1 : place + 4000] if line.strip().startswith(mine))
        for further in (lines[place][start.start() :], *(_PREFIX.sub("", line) for line in rest)):
            depth += further.count("{") - further.count("}")
            held += len(further)
            block.append(further)
            if depth <= 0 or held > limits.MAX_DUMP:
                break
        text = "\n".join(block)
        if depth > 0 or held > limits.MAX_DUMP:
            continue
        try:
            return configuration.flat(ast.literal_eval(text[: text.rfind("}") + 1]))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return {}


def _beside(path: Path) -> dict[str, Any]:
    """A configuration in the log's folder: of a common name, or one whose name begins as the log's does."""
    folder = path if os.path.isdir(path) else path.parent
    own = path.name.partition("__")[0] + "__" if "__" in path.name else path.stem + "."
    try:
        names = sorted(os.listdir(folder))[:2000]
    except OSError:
        return {}
    named = [
        one
        for one in names
        if one.startswith(own) and "config" in one.lower() and one.endswith((".yaml", ".yml", ".json"))
    ]
    for name in (*named, *_BESIDE):
        if name == path.name or not os.path.isfile(folder / name):
            continue
        try:
            settings = configuration.load(str(folder / name))
        except ValueError:
            continue
        mine = any(key in settings for key in ("num_generations", "learning_rate", "group_size"))
        if mine or any(key.startswith("actor_rollout_ref.") for key in settings):
            return settings
    return {}
