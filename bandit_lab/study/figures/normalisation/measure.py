"""Measurement of experiments/normalisation.py."""

from functools import partial

import numpy as np
import xarray

from bandit_lab import measure as detectors
from bandit_lab.bandits import k_arm, two_arm
from bandit_lab.grpo import ADVANTAGES, Hyper, Learner
from bandit_lab.simulate import trajectories
from bandit_lab.study.figures.normalisation.problem import dataset, name, policies, steps
from bandit_lab.study.reproduce.experiment import Lab, Setting


def measure(setting: Setting, lab: Lab) -> xarray.Dataset:
    """The mean update step by step; second derivatives by differentiation."""
    places, losses, exponents, rates = steps(setting), [], [], []
    for number, curve in enumerate(setting.curves):
        full = lab.keep(name(curve).replace(" ", ""), partial(_loss, setting, curve)).loss.values
        losses.append(full[places])
        exponential = curve["advantage"] == "dapo"
        exponents.append(np.nan if exponential else float(detectors.late_exponent(full)))
        early = full[: int(np.argmax(full < setting.smallest_loss))] if exponential else None
        rates.append(np.nan if early is None else float(detectors.late_rate(early)) / setting.learning_rate)
        lab.progress(number + 1, len(setting.curves))
    seen = [
        float(detectors.measure_curvature(k_arm(rewards.tolist(), kind="fixed"), logits, u).second_derivative[0])
        for logits, rewards, u in policies(setting)
    ]
    return dataset(setting, losses, {"exponent": exponents, "rate": rates}, {"curvature": seen})


def _loss(setting: Setting, curve: dict) -> xarray.Dataset:
    finite = {} if curve["group_size"] is None else {"group_size": curve["group_size"]}
    learner = Learner(two_arm((0.0, -1.0), kind="fixed"), advantage=ADVANTAGES[curve["advantage"]](), **finite)
    cells = Hyper(np.array([setting.learning_rate]), np.zeros(1), np.ones(1, int), np.zeros(1))
    last = round(setting.time / setting.learning_rate)
    dynamics = "finite_group" if finite else "mean_field"
    reward = trajectories(learner, dynamics, cells, steps=last, dtype=np.float64)[0, 0]
    return xarray.Dataset({"loss": ("step", -reward)})
