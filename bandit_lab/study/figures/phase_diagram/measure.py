"""Measurement of experiments/phase_diagram.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.study.figures.phase_diagram.problem import RATE, coordinates
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The threshold at every model, momentum and refresh interval."""
    parts = []
    for model in setting.models:
        parts.append(lab.keep(model, partial(_one_model, model, setting)))
        lab.progress(len(parts), len(setting.models))
    return xarray.concat(parts, "model")


def _one_model(model: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    mu, n = (x.ravel() for x in np.meshgrid(setting.momentum, setting.refresh_interval, indexing="ij"))
    cells = Hyper(np.ones(len(n)), mu, n, np.full(len(n), setting.kl_weight))
    rates = np.geomspace(setting.learning_rate.start, setting.learning_rate.stop, setting.learning_rate.num)
    theta, direction = np.tile(point.rest, (len(n), 1)), detectors.generic_direction(point.basis)
    found = detectors.learning_rate_boundary(learner, "mean_field", cells, theta, direction, rates)
    coords = coordinates(setting) | {"model": [model]}
    value = found.value.reshape([len(values) for values in coords.values()])
    return xarray.Dataset({"threshold": (tuple(coords), value, RATE)}, coords)
