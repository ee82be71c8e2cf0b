"""Host-side checks of arguments: one clear line that names the setting, what was expected and what was got."""

import math
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bandit_lab._text import one_of

T = TypeVar("T")

LARGEST = 1e30
"""Learning rate or KL weight beyond which one step may overflow in single precision, which ends at 3e38."""
LONGEST = 160  # characters of a message of somebody else
_PACKAGE = Path(__file__).resolve().parent


class Word(str):
    """A word of ours in place of a value that was given, such as `nothing`: messages have it without quotes."""

    __repr__ = str.__str__


NOTHING, BOTH = Word("nothing"), Word("both")


def require(condition: bool, name: str, expected: str, got: Any) -> None:
    """Raise `ValueError("name: expected ..., got ...")` unless `condition` holds."""
    if not condition:
        raise ValueError(f"{name}: expected {expected}, got {got!r}")


def finite_number(name: str, value: Any) -> float:
    """`value` as a float. Raises ValueError if it is not a finite number (booleans are not numbers)."""
    require(_is_finite(value), name, "a finite number", value)
    return float(value)


def _is_finite(value: Any) -> bool:
    """Whether `value` is a number that a float can hold; booleans are not numbers."""
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


def non_negative(name: str, value: Any) -> float:
    """`value` as a float >= 0. Raises ValueError otherwise."""
    require(finite_number(name, value) >= 0, name, "a number >= 0", value)
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


def rewards(name: str, values: Any, length: int | None = None) -> tuple[float, ...]:
    """`values` as `numbers` gives them: 0, or of a size whose square a float holds. Raises ValueError otherwise."""
    result = numbers(name, values, length)
    for place, one in enumerate(result):
        require(one == 0 or 1e-100 <= abs(one) <= 1e100, f"{name}[{place}]", "0 or a size from 1e-100 to 1e100", one)
    return result


def choice(name: str, value: Any, known: Sequence[str] | Iterable[str]) -> str:
    """`value` if it is one of `known`. Raises ValueError that lists the known names, with the nearest, otherwise."""
    known = list(known)
    if value not in known:
        raise ValueError(f"{name}: expected {one_of(str(value), known)}, got {value!r}")
    return str(value)


def attempt(method: str, expected: str, call: Callable[[], T]) -> T:
    """What `call` gives. Raises ValueError for whatever it raises."""
    try:
        return call()
    except Exception as error:
        raise ValueError(f"{method}: expected {expected}, got {described(error)}") from error


def described(error: BaseException) -> str:
    """An exception as `Type: first line (file.py:line)`, the line being the last one outside of all packages."""
    line = next(iter(str(error).strip().splitlines()), "")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}{f': {line[:LONGEST]}' if line else ''}{where}"


def _is_own(file: str) -> bool:
    path = Path(file)
    return path.suffix == ".py" and "site-packages" not in path.parts and _PACKAGE not in path.resolve().parents
