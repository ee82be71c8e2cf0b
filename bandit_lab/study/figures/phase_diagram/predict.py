"""Prediction of experiments/phase_diagram.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.phase_diagram.problem import RATE, coordinates
from bandit_lab.study.reproduce.experiment import Setting


def predict(setting: Setting) -> xarray.Dataset:
    """Law, exact threshold and onset of oscillation."""
    signal = theory.BinarySignal(theory.GroupLaw(), tuple(setting.rewards))
    even = np.full(2, 0.5)
    point = theory.settled_point(signal, even, setting.kl_weight, even)
    stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, setting.kl_weight))
    coords = coordinates(setting)
    law, exact, onset = np.empty((3, *map(len, coords.values())))
    for place in np.ndindex(*law.shape):
        model, mu, n = (values[i] for values, i in zip(coords.values(), place, strict=True))
        law[place] = theory.leading_order(n, mu) / stiffness
        exact[place] = theory.exact(model, n, mu).kappa / stiffness
        onset[place] = theory.oscillation_onset(model, n, mu) / stiffness
    values = {"law": law, "threshold": exact, "onset": onset}
    return xarray.Dataset({name: (tuple(coords), value, RATE) for name, value in values.items()}, coords)
