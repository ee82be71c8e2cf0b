"""A trainer's configuration as flat `dotted key -> value`, from a file that is not trusted.

YAML or JSON. Nothing is executed, nothing is unpickled: YAML comes in as text and containers only (no tags, no numbers,
no dates). Size, depth and number of values are bounded, so that aliases cannot multiply.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from grpo_clinic._text import visible
from grpo_clinic.readers import limits, source

_IN_FOLDERS = (".hydra/config.yaml", "config.yaml", "files/config.yaml", "config.json")
_WORDS = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False,
    "null": None, "none": None, "~": None, "": None, "???": None,
}  # fmt: skip


def load(path: str) -> dict[str, Any]:
    """The configuration in a file, or in a run's folder: values by dotted key, `-` written as `_`.

    Raises ValueError (one line) for anything else.
    """
    place = _in_folder(Path(path))
    try:
        values = flat(_unwrapped(_parsed(place, _text(place))))
    except ValueError as error:
        raise ValueError(f"config: {visible(str(place))}: {visible(str(error))}") from None
    if not values:
        raise ValueError(f"config: {place}: expected settings of a trainer, got none")
    return values


def plain_scalar(value: Any) -> Any:
    """A number (`1e-6` and `1_024` too), truth value, None or text of at most 400 characters; else None."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value if abs(value) < limits.LARGEST_SETTING else None
    if not isinstance(value, str):
        return None
    text = value.strip().strip("'\"")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) <= 40 and any(c.isdigit() for c in text):
        for read in (int, float):
            with contextlib.suppress(ValueError):
                if abs(number := read(text)) < limits.LARGEST_SETTING:
                    return number
    return text[:400]


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
            "expected YAML or JSON, got a pickle or PyTorch archive, which is never opened because it can run code; "
            "write its values as YAML"
        )
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("expected YAML or JSON, got binary data")
    if size > limits.MAX_SETTINGS_BYTES:
        raise ValueError(f"expected a configuration of at most {limits.MAX_SETTINGS_BYTES} bytes, got {size}")
    return source.text(path)


def _parsed(path: Path, text: str) -> Any:
    is_json = path.suffix.lower() == ".json" or text.lstrip()[:1] == "{"
    kind = "JSON" if is_json else "YAML"
    try:
        return json.loads(text) if is_json else yaml.load(text, Loader=yaml.BaseLoader)
    except RecursionError:
        raise ValueError(f"expected {kind}, got a document nested too deeply") from None
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"expected {kind}, got a broken document ({' '.join(str(error).split())[:120]})") from None


def _unwrapped(nested: Any) -> Any:
    """wandb's `key: {desc: ..., value: ...}` as `key: value`."""
    if not isinstance(nested, dict):
        return nested
    return {key: node["value"] if _is_wrapped(node) else node for key, node in nested.items() if key != "_wandb"}


def _is_wrapped(node: Any) -> bool:
    return isinstance(node, dict) and "value" in node and set(node) <= {"value", "desc"}


def flat(nested: Any) -> dict[str, Any]:
    """Dotted keys; values under YAML's merge key `<<` come first, so that those beside it win.

    Raises ValueError where there are too many or too deep.
    """
    if not isinstance(nested, Mapping):
        raise ValueError(f"expected keys and values at the top, got {type(nested).__name__}")
    return dict(_walk(nested, "", 0, count()))


def _walk(node: Mapping[Any, Any], prefix: str, depth: int, visited: Iterator[int]) -> Iterator[tuple[str, Any]]:
    """visited: counts keys, those of empty mappings and of aliases each time that they are met."""
    if depth > limits.MAX_SETTINGS_DEPTH:
        raise ValueError(f"expected at most {limits.MAX_SETTINGS_DEPTH} levels, got more")
    if isinstance(node.get("<<"), Mapping):
        yield from _walk(node["<<"], prefix, depth + 1, visited)
    for key, value in node.items():
        if next(visited) >= limits.MAX_SETTINGS:
            raise ValueError(f"expected at most {limits.MAX_SETTINGS} values, got more")
        name = prefix + re.sub(r"^\+*(?:--)?", "", str(key)[:400]).replace("-", "_")
        if isinstance(value, Mapping):
            if key != "<<":
                yield from _walk(value, f"{name}.", depth + 1, visited)
        elif isinstance(value, list | tuple):
            yield name, [plain_scalar(one) for one in value[:16] if not isinstance(one, Mapping | list)]
        else:
            yield name, plain_scalar(value)
