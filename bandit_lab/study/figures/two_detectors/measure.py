"""Measurement of experiments/two_detectors.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.study.figures.two_detectors.problem import RATE
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The three detectors at every model, momentum and refresh interval."""
    return xarray.concat([lab.keep(model, partial(_one_model, model, setting)) for model in setting.models], "model")


def _one_model(model: str, setting: Setting) -> xarray.Dataset:
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=max(setting.refresh_interval))
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)
    report = detectors.measure_stiffness(learner, "mean_field", setting.kl_weight, point)
    mode = detectors.stiffest_mode(report.relaxation_matrix, point.basis)
    momentum, interval = np.meshgrid(setting.momentum, setting.refresh_interval, indexing="ij")
    cells = Hyper(np.ones(momentum.size), momentum.ravel(), interval.ravel(), np.full(momentum.size, setting.kl_weight))
    scan = setting.learning_rate
    rates = np.geomspace(scan.start, scan.stop, scan.num)
    here = (learner, "mean_field", cells, np.tile(point.rest, (momentum.size, 1)))
    found = {
        "onset": detectors.learning_rate_onset(*here, *mode, rates),
        "overshoot": detectors.first_overshoot(*here, *mode, rates),
        "threshold": detectors.learning_rate_boundary(*here, mode[0], rates),
    }
    dims = ("model", "momentum", "refresh_interval")
    coords = {"model": [model], "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
    values = {name: (dims, one.value.reshape(1, *momentum.shape), RATE) for name, one in found.items()}
    return xarray.Dataset(values, coords)
