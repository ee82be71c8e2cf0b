"""Measurement of experiments/linearisation.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.study.figures.linearisation.problem import ALONG, GAP, RATE, coordinates
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Boundary against displacement, and range of the gap above the threshold, for every loop."""
    parts = []
    for place in range(len(setting.loops)):
        parts.append(lab.keep(f"loop {place}", partial(_one_loop, setting, place)))
        lab.progress(len(parts), len(setting.loops))
    return xarray.concat(parts, "loop").assign_coords(coordinates(setting))


def _one_loop(setting: Setting, place: int) -> xarray.Dataset:
    model, interval, momentum = setting.loops[place]
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=interval)
    point = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight)

    def cells(rates: np.ndarray) -> tuple[Hyper, np.ndarray]:
        ones = np.ones(len(rates))
        hyper = Hyper(rates, momentum * ones, np.full(len(ones), interval), setting.kl_weight * ones)
        return hyper, np.tile(point.rest, (len(ones), 1))

    wide = np.geomspace(1e-2, 1e2, 40)
    small = detectors.learning_rate_boundary(learner, "mean_field", *cells(np.ones(1)), ALONG / 2, wide).value[0]
    away = np.array(setting.displacement)
    hyper, theta = cells(np.ones(len(away)))
    grid = small * np.linspace(setting.scan.start, setting.scan.stop, setting.scan.num)
    start = theta + 0.5 * away[:, None] * ALONG
    boundary = [
        detectors.return_boundary(learner, "mean_field", hyper, theta, start, ALONG, grid, steps).value
        for steps in setting.steps
    ]
    hyper, theta = cells(small * (1 + np.array(setting.excess)))
    start = theta + 0.5 * setting.cycle_start * ALONG
    reach = detectors.tail_range(learner, "mean_field", hyper, theta, start, ALONG, setting.steps[0])
    values = {
        "threshold": ((), small, RATE),
        "boundary": (("steps", "displacement"), boundary, RATE),
        "amplitude": ("excess", 0.5 * (reach[:, 1] - reach[:, 0]), GAP),
        "farthest": ("excess", np.abs(reach).max(axis=1), {"units": "logits", "long_name": "largest displacement"}),
    }
    return xarray.Dataset(values)
