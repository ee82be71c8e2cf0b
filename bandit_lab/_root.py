"""A root between two points, without SciPy: half a second of a command that needs one root is the import."""

import math
from collections.abc import Callable

_ROUNDING, _MOST_STEPS = 2.0**-52, 300


def root(function: Callable[[float], float], low: float, high: float, rtol: float = 4 * _ROUNDING) -> float:
    """Where a continuous function that changes its sign between low and high is 0.

    The method of Chandrupatla (Advances in Engineering Software 28, 145, 1997): inverse quadratic interpolation where
    it is safe, else halves. Raises ValueError where the signs at the ends are equal.
    """
    a, b = float(low), float(high)
    at_a, at_b = function(a), function(b)
    if at_a == 0 or at_b == 0:
        return a if at_a == 0 else b
    if not at_a * at_b < 0 and math.copysign(1, at_a) == math.copysign(1, at_b):
        raise ValueError(f"root: expected opposite signs at the ends, got {at_a} and {at_b}")
    share = 0.5
    for _ in range(_MOST_STEPS):
        x = a + share * (b - a)
        at_x = function(x)
        same = math.copysign(1, at_x) == math.copysign(1, at_a)
        c, at_c = (a, at_a) if same else (b, at_b)
        if not same:
            b, at_b = a, at_a
        a, at_a = x, at_x
        best, smallest = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        least = rtol * abs(best) / abs(b - a) if b != a else 1.0
        if smallest == 0 or least > 0.5:
            return best
        place, rise = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if rise**2 < place and (1 - rise) ** 2 < 1 - place:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        share = min(max(share, least), 1 - least)
    return best
