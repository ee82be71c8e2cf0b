"""How a run approaches a vertex: by a power of time or exponentially, read from its last decade."""

import numpy as np

from bandit_lab import _checks

_POINTS = 200


def late_exponent(deficit: np.ndarray, decades: float = 1.0) -> np.ndarray:
    """d ln(deficit)/d ln(step) over the last `decades`, by least squares on points equally spaced in ln(step).

    Args:
      deficit: [..., T + 1] distance to the limit at steps 0..T, > 0 in that range.

    Raises:
      ValueError: fewer than a hundred steps, decades that begin before step 1, a deficit that is not positive.
    """
    deficit = np.asarray(deficit, float)
    last = deficit.shape[-1] - 1
    _checks.require(last >= 100, "steps", "at least 100", last)
    _checks.require(0 < decades <= np.log10(last), "decades", f"a number in (0, {np.log10(last):.3g}]", decades)
    steps = np.unique(np.round(np.geomspace(last / 10**decades, last, _POINTS)).astype(int))
    return _fitted_slope(np.log(steps), deficit[..., steps])


def late_rate(deficit: np.ndarray, share: float = 0.5) -> np.ndarray:
    """-d ln(deficit)/d step over the last `share` of the steps, by least squares. deficit: [..., T + 1] > 0 there.

    Raises ValueError for a share outside (0, 1], a deficit <= 0.
    """
    deficit = np.asarray(deficit, float)
    last = deficit.shape[-1] - 1
    _checks.require(0 < share <= 1, "share", "a number in (0, 1]", share)
    steps = np.arange(int(np.ceil(last * (1 - share))), last + 1)
    return -_fitted_slope(steps.astype(float), deficit[..., steps])


def _fitted_slope(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    _checks.require(bool(np.all(values > 0)), "deficit", "numbers > 0", float(np.min(values)))
    centred = x - x.mean()
    return np.log(values) @ centred / (centred @ centred)
