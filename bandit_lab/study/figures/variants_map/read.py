"""Numbers that the claims of experiments/variants_map.py compare."""

import numpy as np

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce.experiment import Found


def loops(found: Found, has_threshold: int) -> float:
    """How many distinct linear loops that are predicted a threshold (1) or none (0) have variants that all agree.

    Near a fixed point a variant is its stale share of the stiffness and its staleness model; variants that share both
    have one threshold. Shares are told apart to 1e-6.
    """
    agree: dict[tuple[float, str], bool] = {}
    predicted, measured = found.predicted, found.measured
    intervals = [one.first_interval.transpose(*predicted.has_threshold.dims).values for one in (measured, predicted)]
    share = np.round(predicted.stale_share.values, 6) + 0.0
    for i, j, k in np.argwhere(predicted.has_threshold.values == has_threshold):
        loop = float(share[i, j]), str(predicted.staleness.values[k])
        seen, exact = (one[i, j, k] for one in intervals)
        same = abs(seen - exact) < 0.5 if has_threshold else np.isnan(seen)
        agree[loop] = agree.get(loop, True) and bool(same)
    return float(sum(agree.values()))


def frozen_ratio(found: Found, name: str) -> float:
    """Measured over predicted with estimator `frozen`, at the advantage where it is farthest from 1."""
    return farthest_from_one(found.measured[name].sel(estimator="frozen"), found.predicted[name])
