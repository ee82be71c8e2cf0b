"""The first learning rate at which a multiplier leaves the unit circle: of a loop, or of a linearised block."""

import math
from collections.abc import Callable

import numpy as np

from bandit_lab._root import root

AT_ONCE = 16
"""Settings that are looked at together: those of one stretch of a scan."""
_NOISE = 1e-9  # of a multiplier's modulus


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
