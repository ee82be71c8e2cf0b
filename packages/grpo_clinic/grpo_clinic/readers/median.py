"""The median of a few hundred numbers, which a look at a run asks for a dozen times."""

import math

import numpy as np

from grpo_clinic.readers.record import Floats


def median(values: Floats) -> float:
    """The number that `np.median` gives for values [n], at a fifth of its cost; NaN where one is NaN or n is 0.

    Where both zeros are among the values, the sign of a zero may differ: there each is as good a median.
    """
    if not values.size:
        return math.nan
    ordered = np.sort(values)  # NaN comes last
    if ordered[-1] != ordered[-1]:
        return math.nan
    half = ordered.size // 2
    return float(ordered[half] if ordered.size % 2 else (ordered[half - 1] + ordered[half]) / 2)
