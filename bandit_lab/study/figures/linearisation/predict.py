"""Prediction of experiments/linearisation.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.linearisation.problem import ALONG, GAP, RATE, coordinates
from bandit_lab.study.reproduce.experiment import Setting


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
    return xarray.Dataset(values, coordinates(setting))
