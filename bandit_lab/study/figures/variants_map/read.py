"""Numbers that the claims of experiments/variants_map.py compare."""

import numpy as np

from bandit_lab._readings import farthest_from_one
from bandit_lab.study.reproduce.experiment import Found


def agree(found: Found) -> float:
    """How many predicted thresholds lie at the measured interval."""
    return float((abs(found.measured.first_interval - found.predicted.first_interval) < 0.5).sum())


def stable(found: Found) -> float:
    """How many variants that are predicted stable at every interval tried are measured so."""
    return float((np.isnan(found.measured.first_interval) & (found.predicted.has_threshold == 0)).sum())


def frozen_ratio(found: Found, name: str) -> float:
    """Measured over predicted with estimator `frozen`, at the advantage where it is farthest from 1."""
    return farthest_from_one(found.measured[name].sel(estimator="frozen"), found.predicted[name])
