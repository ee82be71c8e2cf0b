"""Prediction of experiments/stiffness.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.stiffness.problem import RATE, STIFFNESS, coordinates, problems_of
from bandit_lab.study.reproduce.experiment import Setting

NONE = {"units": "1"}


def predict(setting: Setting) -> xarray.Dataset:
    """Stiffness, threshold and law of every bandit."""
    rows = []
    for place, (arms, advantage, model) in enumerate(setting.classes):
        for p in problems_of(setting, place):
            signal = theory.BinarySignal(theory.GroupLaw(advantage), tuple(p.rewards))
            reference = np.exp(p.reference) / np.exp(p.reference).sum()
            point = theory.settled_point(signal, reference, p.kl_weight, np.full(arms, 1 / arms))
            stiffness = theory.largest_stiffness(theory.stiffness_split(signal, point.policy, p.kl_weight))
            kappa = theory.exact(model, p.refresh_interval, p.momentum).kappa
            law = theory.leading_order(p.refresh_interval, p.momentum)
            rows.append((stiffness, kappa, kappa / stiffness, law / stiffness))
    names = zip(("stiffness", "kappa", "threshold", "law"), (STIFFNESS, NONE, RATE, RATE), strict=True)
    values = {name: ("bandit", [row[i] for row in rows], about) for i, (name, about) in enumerate(names)}
    return xarray.Dataset(values, coordinates(setting))
