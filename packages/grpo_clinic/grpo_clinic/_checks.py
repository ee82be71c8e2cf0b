"""Checks of arguments: one clear line that names the setting, what was expected and what was got."""

import difflib
import math
from collections.abc import Iterable
from typing import Any


def require(condition: bool, name: str, expected: str, got: Any) -> None:
    """Raise `ValueError("name: expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise ValueError(f"{name}: expected {expected}, got {got!r}")


def finite_number(name: str, value: Any) -> float:
    """`value` as a float. Raises ValueError if it is not a finite number (booleans are not numbers)."""
    require(_is_finite(value), name, "a finite number", value)
    return float(value)


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above 1.8e308
        return False


def positive(name: str, value: Any) -> float:
    """`value` as a float > 0. Raises ValueError otherwise."""
    require(finite_number(name, value) > 0, name, "a number > 0", value)
    return float(value)


def momentum(name: str, value: Any) -> float:
    """`value` as a momentum in [0, 1). Raises ValueError otherwise."""
    require(0 <= finite_number(name, value) < 1, name, "a number in [0, 1)", value)
    return float(value)


def integer(name: str, value: Any, minimum: int) -> int:
    """`value` as an int >= `minimum`. Raises ValueError otherwise; 3.0 is accepted, 3.5 and True are not."""
    require(_is_finite(value) and value == int(value) and value >= minimum, name, f"an integer >= {minimum}", value)
    return int(value)


def numbers(name: str, values: Any, length: int | None = None) -> tuple[float, ...]:
    """`values` as a tuple of finite floats, of the given length if one is given. Raises ValueError otherwise."""
    is_sequence = isinstance(values, Iterable) and not isinstance(values, str)
    require(is_sequence, name, "a list of numbers", values)
    result = tuple(finite_number(f"{name}[{i}]", v) for i, v in enumerate(values))
    if length is not None:
        require(len(result) == length, name, f"{length} numbers", list(result))
    return result


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value` if it is one of `known`. Raises ValueError that lists the known names, with the nearest, otherwise."""
    names = list(allowed)
    if value not in names:
        near = difflib.get_close_matches(str(value), names, n=1)
        meant = f" (did you mean {near[0]}?)" if near else ""
        require(False, name, f"one of {', '.join(names)}{meant}", value)
    return str(value)
