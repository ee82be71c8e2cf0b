"""Prediction of experiments/linearisation.py."""

from collections.abc import Callable

import numpy as np
import xarray

from bandit_lab import theory
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
from bandit_lab.study.reproduce.experiment import Setting
from bandit_lab.theory.excursion import edges, place_of_return, thrown_out


def predict(setting: Setting) -> xarray.Dataset:
    """Thresholds and the amplitude of the exact orbit."""
    signal, even = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards)), np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))

    def drift(gap: float) -> float:
        return float(ALONG @ theory.mean_drift(signal, even, setting.kl_weight, 0.5 * gap * ALONG))

    gap = float(ALONG @ np.log(point.policy))
    orbit = theory.two_cycle(drift, gap, 10.0)
    threshold = [theory.exact(model, n, mu).kappa / stiffness for model, n, mu in setting.loops]
    ratio = 1 + np.array(setting.excess)
    amplitude = np.interp(ratio, orbit.ratio, orbit.amplitude, right=np.nan)
    thin = slice(None, None, 2)
    values = {
        "threshold": ("loop", threshold, RATE),
        "amplitude": ("excess", amplitude, GAP),
        "orbit_ratio": ("orbit", orbit.ratio[thin], {"units": "1", "long_name": "learning rate over threshold"}),
        "orbit_amplitude": ("orbit", orbit.amplitude[thin], GAP),
        "orbit_slope": ("orbit", orbit.slope[thin], {"units": "1", "long_name": "slope over two blocks, mu = 0"}),
        "least_orbit_ratio": ((), float(orbit.ratio.min()), {"units": "1"}),
    }
    basins = _basins(setting, drift, gap, stiffness, orbit)
    return xarray.Dataset(values, coordinates(setting)).merge(basins)


def _basins(
    setting: Setting, drift: Callable[[float], float], fixed: float, stiffness: float, orbit: theory.TwoCycle
) -> xarray.Dataset:
    """The first loop: what becomes of every start, the edges of what the first block throws out, the orbit's points."""
    axes, interval = basin_axes(setting), setting.loops[0][1]
    fine = np.linspace(axes["ratio"][0], axes["ratio"][-1], 161)
    ends = fixed + axes["start"][0], fixed + axes["start"][-1]

    def limits(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        push = 2 * ratio / stiffness
        return push, place_of_return(drift, fixed, FAR, push / interval * setting.basins.steps)

    thrown = thrown_out(drift, fixed + axes["start"], *limits(axes["ratio"]))
    above = np.broadcast_to(axes["ratio"][:, None] > 1, thrown.shape)
    basin = np.where(above, np.where(thrown, float(THROWN), float(CYCLES)), float(RETURNS))
    edge = edges(drift, *ends, *limits(fine)) - fixed
    edge[fine < 1] = np.nan
    known = {"left": np.nan, "right": np.nan}
    points = [np.interp(fine, orbit.ratio, side - fixed, **known) for side in (orbit.low, orbit.high)]
    slope = np.interp(fine, orbit.ratio, orbit.slope, **known)
    shown = {"units": "logits", "long_name": "displacement"}
    values = {
        "basin": (("ratio", "start"), basin, BASIN),
        "thrown_edge": (("fine_ratio", "side"), edge, shown),
        "orbit_point": (("fine_ratio", "side"), np.transpose(points), shown),
        "point_slope": ("fine_ratio", slope, {"units": "1", "long_name": "slope over two blocks"}),
    }
    return xarray.Dataset(values, axes | {"fine_ratio": fine, "side": [0, 1]})
