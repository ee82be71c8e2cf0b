"""What all sides are told of experiments/group_size.py."""

import numpy as np
import xarray

from bandit_lab._readings import crossing

RULES = ("rloo", "grpo")
CASES = ("noisy", "balanced")


def times(setting):
    """Learning rate times steps, at the compared steps [P], and those steps."""
    steps = round(setting.curve.time / setting.curve.learning_rate)
    shown = np.round(np.linspace(0, steps, setting.curve.points)).astype(int)
    return shown * setting.curve.learning_rate, shown


def failures(setting):
    """Failure probabilities 1 - p [Q] at which an update is measured."""
    return np.geomspace(0.5, setting.factor.smallest_failure, setting.factor.points)


def log_odds(p):
    return np.log(np.asarray(p) / (1 - np.asarray(p)))


def level_crossings(failure, factor, levels):
    """Failure probability at which c_G falls through each level, by a local cubic in its logarithm; nan if nowhere."""
    found = []
    for level in levels:
        below = np.flatnonzero(factor < level)
        i = int(below[0]) if len(below) else 0
        if i == 0:
            found.append(np.nan)
            continue
        near = slice(max(0, i - 2), max(0, i - 2) + 4)
        found.append(float(np.exp(np.polyval(np.polyfit(factor[near], np.log(failure[near]), 2), level))))
    return np.array(found)


def log_slope(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def dataset(setting, curves, infinite, factor, at_level, variance, extra):
    """What both sides have, with units."""
    sizes = np.array(setting.sizes)
    late = sizes >= setting.variance.slope_from
    slopes = [[log_slope(sizes[late], row[late]) for row in case] for case in variance]
    reached = [[crossing(times(setting)[0], c, setting.curve.reached) for c in rule] for rule in curves]
    values = {
        "reward": (("rule", "group_size", "time"), curves, "reward"),
        "reward_infinite": (("rule", "time"), infinite, "reward"),
        "delay": (("rule", "group_size"), [np.array(row) / row[-1] for row in reached], "1"),
        "factor": (("group_size", "failure"), factor, "1"),
        "failure_at_level": (("group_size", "level"), at_level, "probability"),
        "variance": (("case", "loop", "group_size"), variance, "reward^2"),
        "variance_slope": (("case", "loop"), slopes, "1"),
        **extra,
    }
    coords = {"rule": list(RULES), "case": list(CASES), "group_size": sizes, "time": times(setting)[0]}
    coords |= {"failure": failures(setting), "level": setting.factor.levels, "loop": [0, 1]}
    return xarray.Dataset({k: (d, np.asarray(v, float), {"units": u}) for k, (d, v, u) in values.items()}, coords)
