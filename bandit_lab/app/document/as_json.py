"""Results as strict JSON: no NaN, null with the reason beside it."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandit_lab._text import json_visible
from bandit_lab.app.document.blocks import ABSENT, Block, On, Table, Values
from bandit_lab.app.document.value import Value


def content_of(sections: Mapping[str, Sequence[Block]]) -> dict[str, Any]:
    """Plain content of `summary.json`: one entry per section that has any; the section "" stands at the top."""
    result: dict[str, Any] = {}
    for key, blocks in sections.items():
        kept = [block for block in blocks if isinstance(block, Values | Table) and On.JSON in block.on]
        if not kept:
            continue
        if len(kept) == 1 and not kept[0].name:
            content = encode(kept[0])
        else:
            content = {}
            for block in kept:
                content |= {block.name: encode(block)} if block.name else encode(block)
        result |= content if not key else {key: content}
    return result


def encode(value: Any) -> Any:
    """Plain content of one value, block or nest of them."""
    if isinstance(value, Value):
        return _object(value)
    if isinstance(value, Values):
        return entries(value.items)
    if isinstance(value, Table):
        kept = [column for column in value.columns if On.JSON in column.on]
        return [entries({column.key: column.read(row) for column in kept}) for row in value.rows]
    if isinstance(value, Mapping):
        return entries(value)
    return [encode(one) for one in value] if isinstance(value, list | tuple) else plain(value)


def entries(items: Mapping[str, Any]) -> dict[str, Any]:
    """Keys and values of an object. A number without interval stands bare, with `<key>_reason` beside a null."""
    result: dict[str, Any] = {}
    for key, value in items.items():
        if value is ABSENT:
            continue
        if isinstance(value, Value) and value.level is None and value.standard_error is None:
            result |= _bare(str(key), value)
        else:
            result[str(key)] = encode(value)
    return result


def _bare(key: str, value: Value) -> dict[str, Any]:
    return {key: value.value} | ({f"{key}_reason": value.reason} if value.reason else {})


def _object(value: Value) -> dict[str, Any]:
    result = _bare("value", value)
    if value.standard_error is not None:
        result |= _bare("standard_error", value.standard_error)
    if value.level is not None:
        name = interval_name(value.level)
        result[name] = value.interval
        result |= {f"{name}_reason": value.open_reason} if value.open_reason else {}
    return result | {"unit": value.unit}


def interval_name(level: float) -> str:
    """Key of an interval: `interval_90` at 0.9."""
    return f"interval_{100 * level:g}"


def strict_json(value: Any) -> str:
    """JSON without NaN or Infinity: they become null. Arrays become lists, codes their names.

    What UTF-8 cannot hold (a path's odd bytes) or a terminal would obey stands as an escape, which reads back the same.
    """
    return json_visible(json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)) + "\n"


def plain(value: Any) -> Any:
    """Nested plain Python values; every non-finite number is None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
