"""Beyond the flip threshold of model `refresh`: the exact orbit of period two of a one-dimensional nonlinear drift.

Derived here, one coordinate x (two arms: the logit gap), every gradient frozen over a block of N steps. With m = mu^N,
S, a, P of one block (`conventions`) and w the last step, a block is x' = x + a w + eta P g(x), w' = m w + eta S g(x)
(heavy ball: a = mu S). An orbit (x1, w1) -> (x2, w2) -> (x1, w1) has, from the sums of both blocks, g(x2) = -g(x1) and
w2 = -w1, hence w1 = -eta S g1/(1 + m) and

    x2 - x1 = eta L g(x1),    L = P - a S/(1 + m).

At the fixed point this is the flip, eta L K = 2. So the orbit depends on eta over its threshold alone, whatever N
and mu: (x2 - x1) K/(2 g(x1)) is that ratio. If it never falls below 1 there is no such orbit below the threshold;
at mu = 0 every bounded run then converges (no orbit of period two, no longer one: Coppel 1955), so that the linear
threshold is the boundary for starts at any distance.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from bandit_lab import _checks


class TwoCycle(NamedTuple):
    """Orbits of period two, [A] each: learning rate over the threshold, lower and upper point, half their distance.

    slope: product of the two slopes of the map at mu = 0; the orbit attracts where its modulus is below 1.
    """

    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray
    amplitude: np.ndarray
    slope: np.ndarray


def two_cycle(drift: Callable[[float], float], fixed: float, reach: float, points: int = 200) -> TwoCycle:
    """Orbits around the attracting point `fixed` of a drift g(x), as far as g has no extremum between the two points.

    `reach`: how far from the fixed point the upper point is looked for. Raises ValueError unless g falls through zero
    at `fixed`. Derived in this module.
    """
    step = 1e-5
    stiffness = -(drift(fixed + step) - drift(fixed - step)) / (2 * step)
    _checks.require(stiffness > 0, "drift", "one that falls through zero at the fixed point", stiffness)
    far = np.linspace(0, reach, 4001)[1:]
    above = np.array([-drift(fixed + x) for x in far])
    below = np.array([drift(fixed - x) for x in far])
    peak_above, peak_below = _first_peak(above), _first_peak(below)
    most = min(above[peak_above], below[peak_below])
    rows = []
    for level in most * (1 - np.linspace(1, 0.01, points, endpoint=True) ** 2):
        if level <= 0:
            continue
        high = brentq(lambda x, c=level: -drift(x) - c, fixed, fixed + far[peak_above], xtol=1e-13)
        low = brentq(lambda x, c=level: drift(x) - c, fixed - far[peak_below], fixed, xtol=1e-13)
        push = (high - low) / level
        slopes = [1 + push * (drift(x + step) - drift(x - step)) / (2 * step) for x in (low, high)]
        rows.append((push * stiffness / 2, low, high, 0.5 * (high - low), slopes[0] * slopes[1]))
    return TwoCycle(*np.array(rows).T)


def flip_slope(drift: Callable[[float], float], fixed: float) -> float:
    """Slope of amplitude^2 against the learning rate over its threshold, where the orbit is born at `fixed`.

    With g1, g2, g3 the derivatives of g there, a = g2/(2 g1) and b = g3/(6 g1), the points where g is c and -c, in
    units of the stiffness, lie 2 c (1 + (2 a^2 - b) c^2) apart to third order. The ratio is 1 + (2 a^2 - b) c^2, hence
    the slope 1/(2 a^2 - b). Negative: the orbit exists below the threshold and repels (subcritical). Raises ValueError
    as `two_cycle`. Derived here.
    """
    near = np.polynomial.Chebyshev.interpolate(np.vectorize(drift), 10, [fixed - 0.25, fixed + 0.25])
    first, second, third = (float(near.deriv(k)(fixed)) for k in (1, 2, 3))
    _checks.require(first < 0, "drift", "one that falls through zero at the fixed point", -first)
    return 1 / (2 * (second / (2 * first)) ** 2 - third / (6 * first))


def _first_peak(values: np.ndarray) -> int:
    falls = np.flatnonzero(np.diff(values) <= 0)
    return int(falls[0]) if len(falls) else len(values) - 1
