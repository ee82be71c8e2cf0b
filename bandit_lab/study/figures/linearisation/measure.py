"""Measurement of experiments/linearisation.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import two_arm
from bandit_lab.grpo import STALENESS, Hyper, Learner
from bandit_lab.study.figures.linearisation.problem import (
    ALONG,
    BASIN,
    CYCLES,
    FAR,
    GAP,
    RATE,
    RETURNS,
    THROWN,
    basin_axes,
    coordinates,
)
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """Boundary against displacement, and range of the gap above the threshold, for every loop."""
    parts = []
    for place in range(len(setting.loops)):
        parts.append(lab.keep(f"loop {place}", partial(_one_loop, setting, place)))
        lab.progress(len(parts), len(setting.loops))
    loops = xarray.concat(parts, "loop").assign_coords(coordinates(setting))
    return loops.merge(lab.keep("basins", partial(_basins, setting, float(loops.threshold[0]))))


def _basins(setting: Setting, threshold: float) -> xarray.Dataset:
    """What becomes of runs of the first loop that start anywhere, below and above the threshold."""
    axes, (model, interval, momentum) = basin_axes(setting), setting.loops[0]
    learner = Learner(two_arm(setting.rewards), staleness=STALENESS[model](), horizon=interval)
    fixed = detectors.find_fixed_point(learner, "mean_field", setting.kl_weight).rest
    ratio, away = (one.ravel() for one in np.meshgrid(*axes.values(), indexing="ij"))
    columns = np.broadcast_arrays(threshold * ratio, momentum, interval, setting.kl_weight)
    theta, start = np.tile(fixed, (ratio.size, 1)), fixed + 0.5 * away[:, None] * ALONG
    cells = Hyper(*(np.array(column) for column in columns))
    reach = detectors.tail_range(learner, "mean_field", cells, theta, start, ALONG, setting.basins.steps)
    farthest = np.abs(reach).max(axis=1)
    codes = [RETURNS, THROWN]
    basin = np.select([farthest < setting.basins.returned, farthest > FAR], codes, CYCLES).reshape(
        len(axes["ratio"]), -1
    )
    return xarray.Dataset({"basin": (("ratio", "start"), basin.astype(float), BASIN)}, axes)


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
