"""A trainer's configuration as flat `dotted key -> value`, from a file that is not trusted.

YAML, JSON, TOML, a Python script (keyword arguments of `...Config(...)` calls) or a shell script (`key=value` and
`--key value`). Nothing is executed, nothing is unpickled: YAML comes in as text and containers only (no tags, no
numbers, no dates), size, depth and number of values are bounded, so that aliases cannot multiply.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from grpo_clinic.readers import source
from grpo_clinic.trainers import scripts
from grpo_clinic.trainers.base import plain_scalar

MAX_BYTES = 256_000
MAX_VALUES = 20_000
MAX_DEPTH = 40
_IN_FOLDERS = (".hydra/config.yaml", "config.yaml", "files/config.yaml", "config.json", "config.toml")


@dataclass(frozen=True)
class Configuration:
    """`values` by dotted key, `-` written as `_`; `kind` says how the file was read."""

    path: str
    kind: str
    values: Mapping[str, Any]


def load(path: str) -> Configuration:
    """The configuration in a file, or in a run's folder. Raises ValueError (one line) for anything else."""
    place = _in_folder(Path(path))
    try:
        text = _text(place)
        kind, nested = _parsed(place, text)
        values = dict(_flat(_unwrapped(nested)))
    except ValueError as error:
        raise ValueError(f"config: {place}: {error}") from None
    if not values:
        raise ValueError(f"config: {place}: expected settings of a trainer, got none ({kind})")
    return Configuration(str(place), kind, values)


def from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Nested `options` as flat dotted keys. Raises ValueError where there are too many or too deep."""
    return dict(_flat(options))


def _in_folder(path: Path) -> Path:
    if not os.path.isdir(path):
        return path
    for name in _IN_FOLDERS:
        if os.path.isfile(path / name):
            return path / name
    raise ValueError(f"config: {path}: expected a folder with {', '.join(_IN_FOLDERS)}, got none of these")


def _text(path: Path) -> str:
    try:
        size, head = source.check(path), source.head(path)
    except ValueError as error:
        raise ValueError(str(error).replace("expected a log", "expected a configuration")) from None
    pickled = head[:2] == b"PK" or (head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5)
    if pickled or path.name == "training_args.bin":
        raise ValueError(
            "expected YAML, JSON, TOML or a script, got a pickle or PyTorch archive, which is never opened because it "
            "can run code; write its values as YAML, or give them as options.<key>=<value>"
        )
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("expected YAML, JSON, TOML or a script, got binary data")
    if size > MAX_BYTES:
        raise ValueError(f"expected a configuration of at most {MAX_BYTES} bytes, got {size}")
    return source.text(path)


def _parsed(path: Path, text: str) -> tuple[str, Any]:
    suffix = path.suffix.lower()
    if suffix == ".py":
        return "Python script", scripts.from_python(text)
    if suffix in (".sh", ".bash", ".slurm", ".sbatch") or text.startswith("#!"):
        return "shell script", scripts.from_shell(text)
    if suffix == ".toml":
        return "TOML", _guarded(tomllib.loads, text, "TOML")
    if suffix == ".json" or text.lstrip()[:1] == "{":
        return "JSON", _guarded(json.loads, text, "JSON")
    found = _guarded(_yaml, text, "YAML") if suffix in (".yaml", ".yml") else _yaml_or_nothing(text)
    if isinstance(found, dict):
        return "YAML", found
    if suffix in (".yaml", ".yml"):
        raise ValueError("expected YAML with keys and values at the top, got a list or plain text")
    return "key=value text", scripts.from_shell(text)


def _yaml_or_nothing(text: str) -> Any:
    try:
        return _guarded(_yaml, text, "YAML")
    except ValueError:
        return None


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{getattr(error, 'problem', None) or 'cannot be read'}{where}") from None


def _guarded(read: Callable[[str], Any], text: str, kind: str) -> Any:
    try:
        return read(text)
    except RecursionError:
        raise ValueError(f"expected {kind}, got a document nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"expected {kind}, got a broken document ({' '.join(str(error).split())[:120]})") from None


def _unwrapped(nested: Any) -> Any:
    """wandb's `key: {desc: ..., value: ...}` as `key: value`."""
    if not isinstance(nested, dict):
        return nested
    return {key: node["value"] if _is_wrapped(node) else node for key, node in nested.items() if key != "_wandb"}


def _is_wrapped(node: Any) -> bool:
    return isinstance(node, dict) and "value" in node and set(node) <= {"value", "desc"}


def _flat(nested: Any) -> Iterator[tuple[str, Any]]:
    """Dotted keys; values under YAML's merge key `<<` come first, so that those beside it win."""
    if not isinstance(nested, Mapping):
        raise ValueError(f"expected keys and values at the top, got {type(nested).__name__}")
    yield from _walk(nested, "", 0, count())


def _walk(node: Mapping[Any, Any], prefix: str, depth: int, visited: Iterator[int]) -> Iterator[tuple[str, Any]]:
    """visited: counts keys, those of empty mappings and of aliases each time that they are met."""
    if depth > MAX_DEPTH:
        raise ValueError(f"expected at most {MAX_DEPTH} levels, got more")
    if isinstance(node.get("<<"), Mapping):
        yield from _walk(node["<<"], prefix, depth + 1, visited)
    for key, value in node.items():
        if next(visited) >= MAX_VALUES:
            raise ValueError(f"expected at most {MAX_VALUES} values, got more")
        name = prefix + re.sub(r"^\+*(?:--)?", "", str(key)[:400]).replace("-", "_")
        if isinstance(value, Mapping):
            if key != "<<":
                yield from _walk(value, f"{name}.", depth + 1, visited)
        elif isinstance(value, list | tuple):
            yield name, [plain_scalar(one) for one in value[:16] if not isinstance(one, Mapping | list)]
        else:
            yield name, plain_scalar(value)
