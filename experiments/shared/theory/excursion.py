"""Beyond the linear threshold of model `refresh`: which starts one block throws out for long. One coordinate, mu = 0.

Derived here. A block of N steps moves x to x + eta N g(x), g the drift, frozen over the block. Above the fixed point x*
the policy becomes certain and g falls like exp(-x): steps are short there, and the way back follows the flow dx = g dt,
t the learning rate times the steps. From X down to x* + far it takes

    t = int from x* + far to X of dx/|g(x)|,

so that a start is farther out than `far` for all of a time t if its first block ends beyond X(t). As eta N is 2/K
times the learning rate over the threshold, which starts these are does not depend on N, but for t.
"""

from collections.abc import Callable

import numpy as np
from scipy.integrate import cumulative_trapezoid

from bandit_lab import _checks

_REACH, _STEP = 25.0, 5e-3  # logits beyond `far`; of the integral


def place_of_return(drift: Callable[[float], float], fixed: float, far: float, time: np.ndarray) -> np.ndarray:
    """Place X [...] from which the flow needs `time` [...] (learning rate x steps) to be back at fixed + far.

    drift: g(x), negative above `fixed`. far: logits. Raises ValueError for a time that is not positive, or so long that
    X is not within 25 logits. Derived in this module.
    """
    time = np.asarray(time, float)
    _checks.require(bool(np.all(time > 0)), "time", "> 0", time)
    places = fixed + far + np.arange(0.0, _REACH, _STEP)
    taken = cumulative_trapezoid([-1 / drift(x) for x in places], places)
    _checks.require(bool(np.all(time <= taken[-1])), "time", f"at most {taken[-1]:.3g}", time)
    return np.interp(np.log(time), np.log(taken), places[1:])


def thrown_out(drift: Callable[[float], float], start: np.ndarray, push: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Whether the first block from each start [S] ends beyond the limit [R], for each push eta N [R]: truth [R, S]."""
    step = np.array([drift(x) for x in start])
    return np.asarray(start + np.multiply.outer(push, step) > limit[..., None])


def edges(drift: Callable[[float], float], low: float, high: float, push: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """First and last start [R, 2] that are thrown out; NaN where that is not between low and high.

    Resolved to 1/4000 of the range.
    """
    start = np.linspace(low, high, 4001)
    thrown = thrown_out(drift, start, push, limit)
    ends = np.stack([start[thrown.argmax(-1)], start[::-1][thrown[..., ::-1].argmax(-1)]], axis=-1)
    within = thrown.any(-1, keepdims=True) & ~thrown[..., [0, -1]]
    return np.where(within, ends, np.nan)
