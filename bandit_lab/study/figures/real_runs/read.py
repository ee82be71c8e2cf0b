"""Numbers that the claims of experiments/real_runs.py compare."""

import numpy as np

from bandit_lab.study.figures.real_runs.problem import LAWS
from bandit_lab.study.reproduce.experiment import Found


def needs_no_inertia(f: Found) -> float:
    """Share of runs in which the oscillator is not clearly better than every law without inertia."""
    others = f.measured.aicc.sel(law=list(LAWS[1:])).min("law")
    return float((others - f.measured.aicc.sel(law="oscillator") <= f.setting.margin).mean())


def kept(f: Found) -> np.ndarray:
    """Which forecasts are not refused."""
    return f.measured.refused.values == 0


def coverage(f: Found) -> float:
    """Share of those whose interval holds the end of the run."""
    return float(f.measured.covered.values[kept(f)].mean())


def error_ratio(f: Found) -> float:
    """Median error over that of the best baseline; 1 if it is no larger."""
    medians = np.nanmedian(f.measured.error.values[kept(f)], axis=0)
    return max(1.0, float(medians[0] / medians[1:].min()))


def exponent(f: Found, code: int) -> float:
    """Slope of log time against log factor with a level per group (least squares)."""
    m = f.measured
    here = (m.factor_code.values == code) & np.isfinite(m.time.values)
    x, y, group = np.log(m.factor_ratio.values[here]), np.log(m.time.values[here]), m.group.values[here]
    x, y = (v - np.array([v[group == one].mean() for one in group]) for v in (x, y))
    return float(np.sum(x * y) / np.sum(x * x))
