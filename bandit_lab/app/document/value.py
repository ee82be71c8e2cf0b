"""A number of a result, or the reason why there is none; and how numbers are shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Value:
    """A number with its unit and interval. The one way in which a number can be absent: `value` None, with a `reason`.

    NaN and infinity are no values. With a `level` there is an interval at that confidence; an end that is None is not
    bounded, and `open_reason` says why. `standard_error` is a value of its own, with its own reason.

    Raises ValueError at construction where a number and a reason stand together, or neither does.
    """

    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    reason: str = ""
    level: float | None = None
    open_reason: str = ""
    standard_error: "Value | None" = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if isinstance(number, np.generic):
                object.__setattr__(self, name, number.item())
            elif not (number is None or isinstance(number, int | float)):
                raise ValueError(f"{name}: expected a number or None, got {number!r}")
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{name}: expected a finite number, or None with the reason, got {number!r}")
        if (self.value is None) != bool(self.reason):
            raise ValueError(f"reason: expected one if and only if there is no value, got {self.reason!r}")
        bounds = self.low is not None or self.high is not None
        if self.level is None and (bounds or self.open_reason):
            raise ValueError(f"level: expected the interval's confidence, got None with [{self.low}, {self.high}]")
        if self.level is not None and self.is_open != bool(self.open_reason):
            raise ValueError(f"open_reason: expected one if and only if an end is open, got {self.open_reason!r}")

    @property
    def is_open(self) -> bool:
        """Whether an end of the interval is not bounded."""
        return self.low is None or self.high is None

    @classmethod
    def of(cls, number: object, reason: str, unit: str = "") -> Self:
        """A finite number as it is; anything else (None, NaN, infinity) as absent for this reason."""
        known = finite(number)
        return cls(known, unit, reason="" if known is not None else reason)

    @classmethod
    def absent(cls, reason: str, unit: str = "") -> Self:
        """No number, and why."""
        return cls(None, unit, reason=reason)

    def within(self, low: object, high: object, level: float, open_reason: str) -> "Value":
        """The same number with an interval; an end that is not finite is open for this reason."""
        ends = finite(low), finite(high)
        return replace(self, low=ends[0], high=ends[1], level=level, open_reason=open_reason if None in ends else "")

    @property
    def interval(self) -> list[float | None]:
        """[low, high]."""
        return [self.low, self.high]

    def text(self, digits: int = 3) -> str:
        """`value [low, high]`, `above low` or `below high` as far as it is known; a dash for no value."""
        if self.value is None:
            return "-"
        if self.level is None:
            return number(self.value, digits)
        digits = telling(self.interval, digits)
        if self.low is None and self.high is None:
            return "not bounded"
        if self.low is None or self.high is None:
            return f"above {number(self.low, digits)}" if self.high is None else f"below {number(self.high, digits)}"
        return f"{number(self.value, digits)} [{number(self.low, digits)}, {number(self.high, digits)}]"


def finite(number: object) -> float | None:
    """A number that JSON can hold, or None for any other."""
    known = number.item() if isinstance(number, np.generic) else number
    return known if isinstance(known, int | float) and math.isfinite(known) else None


def number(value: Any, digits: int = 4) -> str:
    """A number with some significant digits, or a dash."""
    return "-" if value is None or (isinstance(value, float) and not np.isfinite(value)) else f"{value:.{digits}g}"


def telling(ends: Sequence[Any] | None, digits: int = 3) -> int:
    """Significant digits, at least so many, that tell the ends of an interval apart by some tenths of its width."""
    known = [float(end) for end in ends or () if number(end) != "-"]
    width = max(known, default=0.0) - min(known, default=0.0)
    if width <= 0:
        return digits
    needed = math.ceil(math.log10(max(abs(end) for end in known) / width)) + 1
    return max(digits, min(needed, 15))


def interval_text(ends: Sequence[Any] | None) -> str:
    """[low, high] to 3 digits or as many as tell the ends apart, with an open end in words."""
    if ends is None:
        return "-"
    digits = telling(ends)
    return f"[{', '.join('open' if number(end) == '-' else number(end, digits) for end in ends)}]"


def text_of(value: Any, digits: int = 4) -> str:
    """Any content of a cell as people read it."""
    if isinstance(value, Value):
        return value.text(digits)
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(text_of(one, digits) for one in value)
    return str(value) if isinstance(value, int | np.integer) else number(value, digits)
