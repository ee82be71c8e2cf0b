"""What is measured of a stiffness, as numbers: K with its parts, its error, its critical rate. Without PyTorch."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DOUBLINGS = 5
"""Of the learning rate, or halvings, before the search for a bracket ends."""
BISECTIONS = 2
"""Of the bracket, which is a factor of two; interpolation, exact on a quadratic, does the rest."""


@dataclass(frozen=True)
class Stiffness:
    """K with its parts along the leading direction, fresh + stale = K; units of the loss per squared parameter.

    in_sample, crossed: see `probe`; equal to value where the weights make expectations exact. angle: argument of
    the leading eigenvalue in sample, radians, 0 where it is real; K is its real part. residual: |A v - K v|/|K| in
    sample. passes: cost, in forward-backward passes over the batch, of each process its own. method: `double_backward`
    or `central`. silent: groups without any gradient, such as those of equal rewards. left_out: share of the
    parameters beyond `seen`.

    By method `forward` all this is along the update of these groups, as `probe_sharpness` says; the error is that for
    this direction. critical: 2/eta_c, which on a quadratic is `fresh` without weight decay; 0 where no loss rises.
    """

    value: float
    standard_error: float
    fresh: float
    stale: float
    in_sample: float
    crossed: float
    angle: float
    residual: float
    passes: float
    groups: int
    method: str
    silent: int = 0
    left_out: float = 0.0
    critical: float | None = None


def standard_error(each: np.ndarray, prompts: np.ndarray) -> float:
    """Error of the mean of `each` [groups]: from groups of one prompt where every prompt has two, else over all groups.

    A covariance of n independent normal numbers varies by 1/(n - 1); its n terms seem to by (n - 2)/(n - 1)^2. Hence
    n - 2 where a prompt's groups are centred on each other (`Operator.mean_of`).
    """
    kinds, counts = np.unique(prompts, return_counts=True)
    if counts.min() > 1:
        centred = 1 + (counts.min() > 2)
        spread = sum(n * np.var(each[prompts == p], ddof=centred) for p, n in zip(kinds, counts, strict=True))
        return float(np.sqrt(spread)) / len(each)
    return float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("inf")


def critical_rate(rise: Callable[[float], float], slope: float, start: float) -> float:
    """Learning rate at which `rise`, loss(eta) - loss(0), is zero again, looked for around `start`.

    slope: -rise'(0), positive. Infinite where the loss is still lower after `DOUBLINGS` doublings. Interpolated is
    rise/eta, which is linear on a quadratic.
    """
    low, below, high, above, rate = 0.0, -slope, np.inf, np.inf, start
    for _ in range(DOUBLINGS + 1):
        chord = rise(rate) / rate
        if chord <= 0:
            low, below = rate, chord
        else:
            high, above = rate, chord
        if low > 0 and np.isfinite(high):
            break
        rate = rate / 2 if np.isfinite(high) else rate * 2
    if not np.isfinite(high):
        return float("inf")
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        chord = rise(middle) / middle
        if chord <= 0:
            low, below = middle, chord
        else:
            high, above = middle, chord
    return low - below * (high - low) / (above - below)
