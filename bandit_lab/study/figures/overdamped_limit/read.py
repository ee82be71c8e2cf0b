"""Numbers that the claims of experiments/overdamped_limit.py compare."""

import numpy as np

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce.experiment import Found


def over_damped(f: Found, name: str) -> float:
    """A fitted number in its own unit, farthest from 1 over the damping ratios from 2 up."""
    return farthest_from_one(f.measured[name].where(f.predicted.damping_ratio >= 2, drop=True), 1.0)


def family_error(f: Found) -> np.ndarray:
    """Relative standard error of the median time, from the 5 % and 95 % quantiles of nearly normal values."""
    m = f.measured
    spread = (m.family_time_high - m.family_time_low) / 3.29 / m.family_time
    return 1.2533 * spread.values / np.sqrt(f.setting.sizes.repeats)


def exponent_error(f: Found) -> float:
    """Standard error of the size exponent."""
    x = np.log(np.array(f.setting.sizes.size))
    return float(np.max(family_error(f)) / np.sqrt(np.sum((x - x.mean()) ** 2)))
