"""A root between two points, without SciPy: half a second of a command that needs one root is the import.

And the first learning rate at which a multiplier leaves the unit circle: of a loop, or of a linearised block.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

_ROUNDING, _MOST_STEPS = 2.0**-52, 300
AT_ONCE = 16
"""Settings that are looked at together: those of one stretch of a scan."""
_NOISE = 1e-9  # of a multiplier's modulus


def root(
    function: Callable[[float], float],
    low: float,
    high: float,
    rtol: float = 4 * _ROUNDING,
    ends: Sequence[float] = (),
) -> float:
    """Where a continuous function that changes its sign between low and high is 0.

    ends: its values there, where a scan has them; near 0 they may differ from the function's by rounding.

    The method of Chandrupatla (Advances in Engineering Software 28, 145, 1997): inverse quadratic interpolation where
    it is safe, else halves. Raises ValueError where the signs at the ends are equal.
    """
    a, b = float(low), float(high)
    at_a, at_b = ends or (function(a), function(b))
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


def first_beyond(top: Callable[[np.ndarray], np.ndarray], grid: np.ndarray) -> tuple[float, complex] | None:
    """(the first learning rate of a rising grid [E] at which the largest multiplier, `top` [E], reaches modulus 1, that
    multiplier); learning rate 0 where it is beyond at the first of the grid; None where it stays below.

    Where its modulus has a maximum below 1, the scan looks again, closer: an unstable window may be narrow.
    """
    rates, sizes = np.empty(0), np.empty(0)
    for chunk in np.split(grid, range(AT_ONCE, len(grid), AT_ONCE)):
        rates, sizes = np.append(rates, chunk), np.append(sizes, np.abs(top(chunk)))
        inner = sizes[1:-1]
        peaks = np.flatnonzero(
            (inner > sizes[:-2] + _NOISE) & (inner > sizes[2:] + _NOISE) & (inner > 0.5) & (inner < 1)
        )
        for peak in peaks[peaks >= len(rates) - len(chunk) - 2]:
            low, high = rates[peak], rates[peak + 2]
            for _ in range(6):
                near = np.linspace(low, high, AT_ONCE)
                at = np.abs(top(near))
                best = int(np.argmax(at))
                low, high = near[max(best - 1, 0)], near[min(best + 1, AT_ONCE - 1)]
                if at[best] >= 1:
                    return _refined(top, rates[peak], near[best])
        beyond = np.flatnonzero(~(sizes < 1))
        if len(beyond):
            first = int(beyond[0])
            if first == 0:
                return 0.0, complex(top(rates[:1])[0])
            return _refined(top, rates[first - 1], rates[first])
    return None


def _refined(top: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> tuple[float, complex]:
    def excess(log_rate: float) -> float:
        radius = float(np.abs(top(np.array([math.exp(log_rate)]))[0]))
        return (min(radius, 1e3) if radius == radius else 1e3) - 1

    rate = math.exp(root(excess, math.log(low), math.log(high)))
    return rate, complex(top(np.array([rate]))[0])
