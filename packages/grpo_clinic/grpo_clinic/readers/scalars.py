"""Numbers as logs write them: 0.125, '0.125', np.float64(0.125), tensor(0.1, device='cuda:0'), null, NaN, 12%.

As objects, too: Python's and NumPy's numbers, and arrays and tensors of one element, whatever library they are of.
"""

import math
import re
from decimal import Decimal
from numbers import Real
from typing import Any

NUMBER = (
    r"[-+]?(?:\d[\d_]{0,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,5})?|[-+]?(?:nan|NaN|NAN|inf|Inf|Infinity)\b"
)

_WRAPPED = re.compile(
    r"(?:np|numpy|torch|jnp)?\.?(?:float|int|bfloat|uint|tensor|Tensor|array|Array)\w{0,8}\((.{1,60}?)[,)]"
)
_NUMBER = re.compile(NUMBER)
_MISSING = frozenset({"", "null", "none", "nil", "n/a", "na", "-", "missing"})


def parse(value: object) -> float | None:
    """`value` as a float, NaN for a missing value, None if it is text or a container; booleans are not numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return _from_int(value)
    if value is None:
        return math.nan
    if isinstance(value, str):
        return _from_text(value)
    return _from_object(value)


def _from_object(value: Any) -> float | None:
    """A number of another type, or what holds just one and gives it by `item()`."""
    if not isinstance(value, (Real, Decimal)):
        try:
            value = value.item()
        except (AttributeError, TypeError, ValueError, RuntimeError):  # no array, or not of one element
            return None
        if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
            return None
    try:
        return float(value)
    except OverflowError:
        return _from_int(int(value))  # type: ignore[arg-type]


def _from_int(value: int) -> float:
    """The nearest float; infinite beyond the largest one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _from_text(text: str) -> float | None:
    if len(text) > 100:
        return None
    text = text.strip().strip("'\"").strip()
    if text.lower() in _MISSING:
        return math.nan
    wrapped = _WRAPPED.match(text)
    if wrapped:
        text = wrapped.group(1).strip(" []")
    percent = text.endswith("%")
    text = text.removesuffix("%").strip()
    if not _NUMBER.fullmatch(text):
        return None
    return float(text) / 100 if percent else float(text)
