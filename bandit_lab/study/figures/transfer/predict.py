"""Prediction of experiments/transfer.py."""

import numpy as np
import xarray

from bandit_lab import theory
from bandit_lab.study.figures.transfer.problem import REWARD, axes, problem
from bandit_lab.study.reproduce.experiment import Setting
from bandit_lab.theory.contextual import Prompts, contextual_curve


def predict(setting: Setting) -> xarray.Dataset:
    """Success of every held-out task from the mean flow."""
    whole, coords = problem(setting), axes(setting)
    reference, features, means = (np.asarray(x) for x in (whole.reference_log_policy, whole.features, whole.law.means))
    share = np.where(np.arange(len(reference)) < setting.contexts, 1 / setting.contexts, 0.0)
    prompts = Prompts(reference, features, means, share)
    times = setting.learning_rate * coords["time"]
    laws = [[theory.GroupLaw(name, size) for size in setting.groups] for name in coords["advantage"]]
    curves = [[contextual_curve(times, prompts, law)[:, setting.contexts :] for law in row] for row in laws]
    return xarray.Dataset({"held_out": (tuple(coords), np.array(curves), REWARD)}, coords)
