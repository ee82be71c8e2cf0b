"""Prediction of experiments/two_detectors.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.two_detectors.problem import RATE
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Law, exact onset of oscillation and exact threshold."""
    signal = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards))
    even = np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))
    dims, coords = _axes(setting)
    shape = [len(coords[name]) for name in dims]
    law, onset, threshold = np.empty((3, *shape))
    for place in np.ndindex(*shape):
        model, mu, n = (coords[name][i] for name, i in zip(dims, place, strict=True))
        law[place] = theory.leading_order(n, mu) / stiffness
        onset[place] = theory.oscillation_onset(model, n, mu) / stiffness
        threshold[place] = theory.exact(model, n, mu).kappa / stiffness
    values = {"law": law, "onset": onset, "threshold": threshold}
    return xarray.Dataset({name: (dims, value, RATE) for name, value in values.items()}, coords)


def _axes(setting: Setting) -> tuple[tuple[str, ...], dict[str, list]]:
    coords = {"model": setting.models, "momentum": setting.momentum, "refresh_interval": setting.refresh_interval}
    return tuple(coords), coords
